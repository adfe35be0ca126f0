//! Answers of a server that prowess is a client of.

use super::MIB;
use crate::world::World;

/// What one answer may take for each of its bytes, and what the program takes without it.
const TIMES: usize = 10;
const ITSELF: usize = 100 * MIB;

/// A server that answers one method with a bomb. Beside that it notes again and again how much memory its client had at
/// most so far.
const SERVER: &str = r#"
method=$1 bytes=$2 told=$3
while sed -n 's/VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$PPID/status" > "$told.new" && mv "$told.new" "$told"; do sleep 0.02; done 2>&1 &
while read -r line; do
  id=$(printf %s "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  [ -z "$id" ] && continue
  printf '{"jsonrpc":"2.0","id":%s,' "$id"
  case $line in
    *'"initialize"'*) printf '"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/skills":{}}},"serverInfo":{"name":"f","version":"1"}}}\n' ;;
    *"\"$method\""*)
      printf '"result":{"tools":[],"skills":['
      yes '{"a":1},' | head -c "$bytes" | tr -d '\n'
      printf '0]}}\n' ;;
    *'"tools/list"'*) printf '"result":{"tools":[]}}\n' ;;
    *'"skills/list"'*) printf '"result":{"skills":[]}}\n' ;;
    *) printf '"error":{"code":-32601,"message":"no"}}\n' ;;
  esac
done
"#;

#[test]
fn case_103_an_answer_of_a_server_costs_at_most_ten_times_its_size() {
    for method in ["tools/list", "skills/list"] {
        let world = World::new();
        let (script, told) = (world.file("server.sh", SERVER).path("server.sh"), world.path("told"));
        let bytes = 9 * (23 * MIB / 9);
        world.file(
            "home/.config/prowess/prowess.toml",
            &format!("[mcp.docs]\ncommand = [\"sh\", {script:?}, \"{method}\", \"{bytes}\", {told:?}]\n"),
        );
        let output = world.output(&["servers", "docs"]);
        let said = String::from_utf8_lossy(&output.stderr);
        let took: usize = std::fs::read_to_string(&told).unwrap().trim().parse().unwrap();
        let took = took * 1024;
        assert!(took <= ITSELF + TIMES * bytes, "{method}: {bytes} bytes took {took}");
        assert!(said.contains("too many small values"), "{method}: {said}");
    }
}
