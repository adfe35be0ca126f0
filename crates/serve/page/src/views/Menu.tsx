import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon, type IconName } from "./Icon";

export interface MenuItem {
  text: string;
  icon?: IconName;
  onClick?: () => void;
  href?: string;
  isDangerous?: boolean;
}

/** A button that opens a list of actions. Arrow keys move in the list, Escape closes it. */
export function Menu({ label, items, children }: { label: string; items: MenuItem[]; children?: ComponentChildren }) {
  const [isOpen, setOpen] = useState(false);
  const [place, setPlace] = useState({ top: 0, right: 0 });
  const button = useRef<HTMLButtonElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const id = useId();

  useEffect(() => {
    if (!isOpen) return;
    list.current?.querySelector<HTMLElement>("[role=menuitem]")?.focus();
    const outside = (event: Event) => {
      const target = event.target as Node;
      if (!list.current?.contains(target) && !button.current?.contains(target)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    window.addEventListener("resize", outside);
    return () => {
      document.removeEventListener("pointerdown", outside);
      window.removeEventListener("resize", outside);
    };
  }, [isOpen]);

  const close = () => {
    setOpen(false);
    button.current?.focus();
  };
  const keys = (event: KeyboardEvent) => {
    const entries = [...(list.current?.querySelectorAll<HTMLElement>("[role=menuitem]") ?? [])];
    const at = entries.indexOf(document.activeElement as HTMLElement);
    const move = { ArrowDown: at + 1, ArrowUp: at - 1 + entries.length, Home: 0, End: entries.length - 1 }[event.key];
    if (move !== undefined) {
      event.preventDefault();
      entries[move % entries.length]?.focus();
    } else if (event.key === "Escape" || event.key === "Tab") {
      event.preventDefault();
      event.stopPropagation();
      close();
    }
  };
  const open = () => {
    const box = button.current?.getBoundingClientRect();
    if (box) {
      const height = items.length * 40 + 16;
      const below = box.bottom + 4 + height < innerHeight;
      setPlace({ top: below ? box.bottom + 4 : Math.max(8, box.top - 4 - height), right: Math.max(8, innerWidth - box.right) });
    }
    setOpen(!isOpen);
  };
  return (
    <span class="menu">
      <button
        ref={button} type="button" class="icon-button" aria-label={label} title={label} aria-haspopup="menu"
        aria-expanded={isOpen} aria-controls={isOpen ? id : undefined} onClick={open}
      >
        {children ?? <Icon name="more" />}
      </button>
      {isOpen && (
        <div
          ref={list} id={id} class="menu-list" role="menu" aria-label={label} onKeyDown={keys}
          style={{ top: `${place.top}px`, right: `${place.right}px` }}
        >
          {items.map((item) => {
            const inner = <>{item.icon && <Icon name={item.icon} />}{item.text}</>;
            return item.href
              ? <a key={item.text} role="menuitem" tabIndex={-1} href={item.href} download onClick={close}>{inner}</a>
              : (
                <button
                  key={item.text} type="button" role="menuitem" tabIndex={-1} class={item.isDangerous ? "dangerous" : ""}
                  onClick={() => {
                    close();
                    item.onClick?.();
                  }}
                >
                  {inner}
                </button>
              );
          })}
        </div>
      )}
    </span>
  );
}
