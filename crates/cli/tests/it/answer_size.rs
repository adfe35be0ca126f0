//! No answer is larger than 16 MiB, whatever a client names as its limit.

use serde_json::{Value, json};

use crate::mcp::Server;
use crate::world::World;

const MIB: usize = 1 << 20;
const MOST: usize = 16 * MIB;

fn world() -> World {
    let world = World::new();
    world
        .skill("home/.prowess/skills", "kit", "Does things.")
        .file("home/.config/prowess/prowess.toml", "[permission.run]\n\"*\" = \"allow\"\n");
    world
}

/// Runs a command whose files are wanted whole, however many bytes there are.
fn whole(command: &str, more: &Value) -> Value {
    let mut outputs = json!({"globs": ["out/**"], "inline": true, "max_files": 1_000_000,
        "max_file_bytes": 1_u64 << 40, "max_total_bytes": 1_u64 << 40});
    outputs.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"skill": "kit", "command": command, "outputs": outputs})
}

/// The most memory that the server has had, in MiB.
fn peak(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

#[test]
fn case_110_no_run_answers_with_more_than_16_mib() {
    let world = world();
    let mut server = Server::start(&world, &["--run"]);
    // Four files of 60 MiB; and text whose bytes take six each in JSON.
    for (what, command) in [
        ("plain", "for i in 1 2 3 4; do head -c 62914560 /dev/zero | tr '\\0' a > $OUTPUT_DIR/$i.txt; done"),
        ("escaped", "rm -f $OUTPUT_DIR/*; head -c 15728640 /dev/zero | tr '\\0' '\\033' > $OUTPUT_DIR/e.txt"),
        ("printed", "rm -f $OUTPUT_DIR/*; head -c 50000000 /dev/zero | tr '\\0' '\\001'"),
    ] {
        let answer = server
            .request("tools/call", &json!({"name": "skill_run", "arguments": whole(command, &json!({}))}));
        let bytes = answer.to_string().len();
        eprintln!(
            "{what}: an answer of {:.1} MiB; the server had {} MiB",
            bytes as f64 / MIB as f64,
            peak(&server)
        );
        assert!(bytes <= MOST, "{what}: an answer of {} MiB", bytes / MIB);
        assert_eq!(answer["result"]["structuredContent"]["exit_code"], 0, "{what}: {answer:.500}");
    }
    server.end();
}

#[test]
fn case_110_no_resource_is_more_than_16_mib() {
    let world = world();
    let mut server = Server::start(&world, &["--run"]);
    let command =
        "head -c 41943040 /dev/urandom > $OUTPUT_DIR/raw; head -c 1000 /dev/zero > $OUTPUT_DIR/small";
    let run = whole(command, &json!({"save": true, "inline": false}));
    let ran = server.call("skill_run", &run);
    assert_eq!(ran["structuredContent"]["artifact_files"].as_array().unwrap().len(), 2, "{ran:.500}");
    let before = peak(&server);
    let read = server.request("resources/read", &json!({"uri": "artifact://out/raw@0"}));
    let bytes = read.to_string().len();
    eprintln!(
        "an answer of {:.1} MiB; the server had {before} and then {} MiB",
        bytes as f64 / MIB as f64,
        peak(&server)
    );
    assert!(bytes <= MOST, "an answer of {} MiB", bytes / MIB);
    let told = read["error"]["message"].as_str().unwrap_or_else(|| panic!("{read:.300}"));
    assert!(told.contains("41943040 bytes") && told.contains("prowess artifacts get"), "{told}");
    let small = server.request("resources/read", &json!({"uri": "artifact://out/small@0"}));
    assert!(
        small["result"]["contents"][0]["blob"].is_string()
            || small["result"]["contents"][0]["text"].is_string()
    );
    // Where it is, the person is told, and gets it whole.
    let at = told.find("prowess artifacts get").unwrap();
    let line: Vec<&str> = told[at..].split('`').next().unwrap().split(' ').skip(1).collect();
    let file = world.path("raw");
    let file = file.to_str().unwrap();
    world.stdout(&[&line[..], &["-o", file]].concat());
    assert_eq!(std::fs::metadata(file).unwrap().len(), 41_943_040);
    server.end();
}
