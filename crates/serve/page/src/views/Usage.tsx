import { useEffect, useId } from "preact/hooks";
import * as api from "../api";
import { useLoaded } from "../hooks";
import { cost, count, fullTime, line, short } from "../text";
import type { CallUsage } from "../types";
import type { PanelProps } from "./Panel";

/** How many model calls the plot shows, the last ones. */
const MAX_BARS = 60;

export function Usage({ name, state }: PanelProps) {
  const { value, error, again, isLoading } = useLoaded(() => api.usage(name), name);
  useEffect(() => {
    if (!isLoading) again();
  }, [state.turnsEnded]);
  if (error && !value) return <p class="error-text" role="alert">{error}</p>;
  if (!value) return <p class="hint" role="status">Loading…</p>;
  const calls = value.model_calls;
  const sum = (of: (call: CallUsage) => number) => calls.reduce((sum, call) => sum + of(call), 0);
  const [input, cached, output] = [sum((call) => call.input), sum((call) => call.cached ?? 0), sum((call) => call.output)];
  const rest = value.tokens - input - cached - output;
  return (
    <>
      <h2 class="panel-title">Usage <span class="muted">{count(calls.length, "model call")}</span></h2>
      <p class="big-number">{short(value.tokens)} <span class="muted">tokens{value.cost !== null && ` · ${cost(value.cost)}`}</span></p>
      <p class="hint">
        {short(input)} input, {cached > 0 && `${short(cached)} input from the cache, `}{short(output)} output
        {rest > 0 && `, ${short(rest)} of sub-agents and summaries`}
      </p>
      {calls.length === 0 ? <p class="hint">The model has not responded yet.</p> : <Plot calls={calls.slice(-MAX_BARS)} all={calls} />}
      {calls.length > 0 && (
        <details class="fold">
          <summary>Table</summary>
          <div class="scroll-x" tabIndex={0} role="group" aria-label="Usage of each model call">
            <table class="small-table">
              <thead><tr><th scope="col">Call</th><th scope="col">Model</th><th scope="col">Input</th><th scope="col">Cached</th><th scope="col">Output</th><th scope="col">Cost</th></tr></thead>
              <tbody>
                {calls.map((call, index) => (
                  <tr key={call.number} title={fullTime(call.at)}>
                    <th scope="row" class="number">{index + 1}</th>
                    <td dir="auto">{line(call.model)}</td>
                    <td class="number">{call.input.toLocaleString("en")}</td>
                    <td class="number">{(call.cached ?? 0).toLocaleString("en")}</td>
                    <td class="number">{call.output.toLocaleString("en")}</td>
                    <td class="number">{cost(call.cost)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </details>
      )}
    </>
  );
}

const WIDTH = 340;
const HEIGHT = 170;
const EDGE = { left: 38, right: 44, top: 12, bottom: 22 };

/** The next round number: 1, 2 or 5 times a power of ten. */
export function roundUp(number: number): number {
  if (number <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(number));
  return ([1, 2, 5, 10].find((step) => step * power >= number * (1 - 1e-9)) ?? 10) * power;
}

/** Bars for the tokens of each model call, and a line for the cost so far. Cached input is no part of the input. */
function Plot({ calls, all }: { calls: CallUsage[]; all: CallUsage[] }) {
  const id = useId();
  const inner = { width: WIDTH - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const largest = Math.max(...calls.map(({ input, output, cached }) => input + output + (cached ?? 0)));
  const most = roundUp(largest);
  const before = all.length - calls.length;
  let sum = 0;
  const costs = all.map((call) => (sum += Number(call.cost ?? 0))).slice(before);
  const hasCost = all.some((call) => call.cost !== null);
  const mostCost = roundUp(sum);
  const step = inner.width / calls.length;
  const width = Math.max(1.5, Math.min(22, step * 0.7));
  const x = (index: number) => EDGE.left + step * (index + 0.5);
  const y = (part: number) => EDGE.top + inner.height * (1 - part);
  const text = `Tokens of ${count(calls.length, "model call")}, at most ${short(largest)} in one. `
    + (hasCost ? `The cost grows to ${sum.toFixed(4)} dollars. ` : "") + "The table has all numbers.";
  return (
    <figure class="plot">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby={`${id}-t`}>
        <title id={`${id}-t`}>{text}</title>
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <line class="grid" x1={EDGE.left} x2={WIDTH - EDGE.right} y1={y(part)} y2={y(part)} />
            <text class="label end" x={EDGE.left - 6} y={y(part) + 3.5}>{short(most * part)}</text>
            {hasCost && <text class="label" x={WIDTH - EDGE.right + 6} y={y(part) + 3.5}>${Number((mostCost * part).toPrecision(2))}</text>}
          </g>
        ))}
        {calls.map((call, index) => {
          const input = call.input / most;
          const cached = (call.cached ?? 0) / most;
          const output = call.output / most;
          const bar = (name: string, from: number, height: number) => (
            <rect class={name} x={x(index) - width / 2} width={width} y={y(from + height)} height={Math.max(0, inner.height * height)} />
          );
          return (
            <g key={call.number}>
              {bar("cached", 0, cached)}
              {bar("input", cached, input)}
              {bar("output", cached + input, output)}
            </g>
          );
        })}
        {hasCost && (
          <polyline class="cost" points={costs.map((sum, index) => `${x(index).toFixed(1)},${y(sum / mostCost).toFixed(1)}`).join(" ")} />
        )}
        {hasCost && costs.map((sum, index) => (
          calls.length <= 30 && <circle key={index} class="cost-dot" cx={x(index)} cy={y(sum / mostCost)} r="2.2" />
        ))}
        <text class="label middle" x={x(0)} y={HEIGHT - 6}>{before + 1}</text>
        {calls.length > 1 && <text class="label middle" x={x(calls.length - 1)} y={HEIGHT - 6}>{all.length}</text>}
      </svg>
      <figcaption class="legend">
        <span><span class="key plot-cached" aria-hidden="true" />cached input</span>
        <span><span class="key plot-input" aria-hidden="true" />input</span>
        <span><span class="key plot-output" aria-hidden="true" />output</span>
        {hasCost && <span><span class="key plot-cost" aria-hidden="true" />cost so far</span>}
      </figcaption>
    </figure>
  );
}
