//! Tests of the network of a command: allowed hosts only.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use prowess_workspace::executor::NoSink;
use prowess_workspace::executor::local::LocalOptions;
use prowess_workspace::{Command, ExecuteError, Executor as _, Exit, Finished, HostRule, Level, Network};

use crate::home::{Home, processes_with, text, unique};
use crate::modes::{Mode, again, in_both_modes};
use crate::place::said;

in_both_modes!(
    a_host_on_the_list_is_reached,
    programs_find_the_proxy_by_their_variables,
    a_tunnel_carries_both_ways,
    what_is_not_on_the_list_is_forbidden_and_reported,
    there_is_no_other_way_out,
    case_58_no_unix_socket_with_a_network_either,
    the_bridge_is_out_of_sight,
    a_second_request_on_the_connection_is_not_heard,
    what_could_be_two_requests_is_refused,
    a_head_that_is_too_long_is_refused,
    many_connections_wait_for_their_turn,
    a_large_body_comes_through,
    below_namespaces_it_is_refused,
    without_socat_it_is_refused,
    a_bridge_that_does_not_start_is_told,
    without_proc_there_is_a_network_too,
    the_end_of_its_time_takes_the_bridge_with_it,
    a_dropped_run_has_no_bridge,
    many_runs_with_a_network_leave_nothing_behind,
    a_bridge_is_seen_off_by_who_started_it,
    case_70_a_killed_runtime_leaves_no_bridge,
);

/// A server on the loopback of this machine, in the place of an outside host.
struct Server {
    port: u16,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Sends `answer` to every request, and records the requests.
    fn answering(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&heard), answer.to_owned());
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let (noted, answer) = (Arc::clone(&noted), answer.clone());
                std::thread::spawn(move || serve(connection.unwrap(), &answer, &noted));
            }
        });
        Self { port, heard }
    }

    fn rule(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

/// Reads a whole head, answers, and reads until the client ends.
fn serve(mut client: TcpStream, answer: &str, noted: &Mutex<Vec<String>>) {
    let number = {
        let mut noted = noted.lock().unwrap();
        noted.push(String::new());
        noted.len() - 1
    };
    let mut answered = false;
    let mut buffer = [0; 4096];
    client.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let whole = {
            let mut noted = noted.lock().unwrap();
            noted[number].push_str(&String::from_utf8_lossy(&buffer[..length]));
            noted[number].contains("\r\n\r\n")
        };
        if whole && !answered {
            answered = true;
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
            client.write_all(head.as_bytes()).unwrap();
            client.write_all(answer.as_bytes()).unwrap();
        }
    }
}

/// A command with these host rules.
fn reaching(home: &Home, rules: &[&str], line: &str) -> Command {
    let mut command = home.command(line);
    command.network = Network::Hosts(rules.iter().map(|rule| rule.parse::<HostRule>().unwrap()).collect());
    command
}

async fn run(home: &Home, rules: &[&str], line: &str) -> Finished {
    home.finish(reaching(home, rules, line)).await
}

/// A command line that sends this text to the proxy, in the format of `printf`, and prints the response.
fn raw(says: &str) -> String {
    format!("exec 3<>/dev/tcp/127.0.0.1/3128 && printf '{says}' >&3 && cat <&3 | tr -d '\\r'")
}

fn get(host: &str) -> String {
    raw(&format!("GET http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n"))
}

async fn a_host_on_the_list_is_reached() {
    let server = Server::answering("hello from outside\n");
    let home = Home::new();
    let finished = run(&home, &[&server.rule()], &get(&server.rule())).await;
    assert!(text(&finished).ends_with("hello from outside\n"), "{}", text(&finished));
    assert_eq!((finished.exit, finished.warnings), (Exit::Code(0), vec![]));
    let expected = format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.rule());
    assert_eq!(server.heard(), [expected]);
    // By the name of the loopback, because a rule allows it.
    let (local, port) = (format!("localhost:{}", server.port), server.port);
    let said = text(&run(&home, &[&local], &get(&local)).await);
    assert!(said.ends_with("hello from outside\n"), "{port} {said}");
}

async fn programs_find_the_proxy_by_their_variables() {
    let server = Server::answering("found\n");
    let home = Home::new();
    let url = format!("http://{}/x", server.rule());
    let python = format!(
        "/usr/bin/python3 -c 'import urllib.request as r; print(r.urlopen(\"{url}\").read().decode(), end=\"\")'"
    );
    let finished = run(&home, &[&server.rule()], &python).await;
    assert_eq!(text(&finished), "found\n");
    let line = "echo $HTTP_PROXY $HTTPS_PROXY $http_proxy $https_proxy $ALL_PROXY; echo $NO_PROXY $no_proxy";
    let said = text(&run(&home, &["example.com"], line).await);
    let proxy = "http://127.0.0.1:3128";
    let none = "localhost,127.0.0.1,::1";
    assert_eq!(said, format!("{proxy} {proxy} {proxy} {proxy} {proxy}\n{none} {none}\n"));
    assert_eq!(home.says("echo $HTTP_PROXY$NO_PROXY").await, "\n", "only with a network");
}

async fn a_tunnel_carries_both_ways() {
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = echo.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut there, _) = echo.accept().unwrap();
        let mut all = String::new();
        there.read_to_string(&mut all).unwrap();
        there.write_all(all.to_uppercase().as_bytes()).unwrap();
    });
    let home = Home::new();
    let line = format!(
        "perl -MIO::Socket::INET -e '$s = IO::Socket::INET->new(\"127.0.0.1:3128\"); print $s \"CONNECT 127.0.0.1:{port} HTTP/1.0\\r\\n\\r\\nearly \"; \
         $s->flush; print scalar <$s>; scalar <$s>; print $s \"late\"; $s->shutdown(1); print <$s>'"
    );
    let finished = run(&home, &[&format!("127.0.0.1:{port}")], &line).await;
    assert_eq!(text(&finished), "HTTP/1.1 200 Connection established\r\nEARLY LATE");
}

async fn what_is_not_on_the_list_is_forbidden_and_reported() {
    let (allowed, other) = (Server::answering("yes\n"), Server::answering("no\n"));
    let home = Home::new();
    let line = [
        get(&other.rule()),
        get(&other.rule()),
        get("example.org"),
        get("127.0.0.1"),
        raw(&format!("CONNECT localhost:{} HTTP/1.1\\r\\n\\r\\n", allowed.port)),
        raw("CONNECT [::1]:443 HTTP/1.1\\r\\n\\r\\n"),
    ];
    let finished = run(&home, &[&allowed.rule(), "example.com"], &line.join("; ")).await;
    let output = text(&finished);
    assert_eq!(output.matches("HTTP/1.1 403 Forbidden\n").count(), 6, "{output}");
    let denied = |host: &str| format!("network: {host} is not on the list of allowed hosts");
    let mut expected =
        vec![denied(&other.rule()), denied("example.org:80"), denied("127.0.0.1:80"), denied("[::1]:443")];
    expected.push(denied(&format!("localhost:{}", allowed.port)));
    expected.sort();
    assert_eq!(said(&finished.warnings), expected);
    assert!(output.contains("\n\nexample.org:80 is not on the list of allowed hosts\n"), "{output}");
    assert!(other.heard().is_empty() && allowed.heard().is_empty());
}

async fn there_is_no_other_way_out() {
    let server = Server::answering("no\n");
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (server.port, udp.local_addr().unwrap().port());
    let home = Home::new();
    let line = format!(
        "for to in tcp/127.0.0.1/{tcp_port} tcp/1.1.1.1/53 udp/1.1.1.1/53 tcp/::1/{tcp_port} tcp/169.254.169.254/80; do \
         (echo hello > /dev/$to) 2>/dev/null && echo reached $to; done; (echo x > /dev/udp/127.0.0.1/{udp_port}) 2>/dev/null; \
         perl -MSocket -e 'socket($s, AF_INET, SOCK_RAW, 1) and print qq(raw\\n)'; \
         perl -e '$_ = gethostbyname(q(example.com)) and print qq(resolved\\n)'; tail -n +3 /proc/net/dev | cut -d: -f1"
    );
    let finished = run(&home, &[&server.rule(), "example.com"], &line).await;
    assert_eq!(text(&finished), "    lo\n");
    assert!(server.heard().is_empty() && udp.recv(&mut [0; 8]).is_err());
}

async fn case_58_no_unix_socket_with_a_network_either() {
    let home = Home::new();
    let at = home.path().join("work/stream");
    let listener = UnixListener::bind(&at).unwrap();
    listener.set_nonblocking(true).unwrap();
    std::fs::set_permissions(&at, std::fs::Permissions::from_mode(0o777)).unwrap();
    let line = r#"perl -MSocket -e '
        for my $family (AF_UNIX, 16, 17, 40) {
            for my $type (SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW) {
                print "socket $family $type\n" if socket(my $s, $family, $type, 0);
            }
        }
        print "pair\n" if socketpair(my $a, my $b, AF_UNIX, SOCK_DGRAM, 0);
        print "done\n"'; grep Seccomp: /proc/self/status; awk 'NR > 1 && NF > 7' /proc/net/unix"#;
    let said = text(&run(&home, &["example.com"], line).await);
    // The bridge has sockets, but without names.
    assert_eq!(said, "done\nSeccomp:\t2\n");
    assert!(listener.accept().is_err());
}

async fn the_bridge_is_out_of_sight() {
    let home = Home::new();
    let line = "ps -e -o comm= | grep -c socat; ls /proc/self/fd | tr '\\n' ' '; for n in 3 4 5 6 7 8 9 10 11 12; do [ -e /proc/$$/fd/$n ] && echo open $n; done; \
                cat /proc/sys/user/max_user_namespaces; unshare -Ur true 2>/dev/null && echo made; grep CapEff /proc/self/status";
    let (with, without) = (run(&home, &["example.com"], line).await, home.run(line).await);
    assert_eq!(text(&with), text(&without));
    assert!(text(&with).starts_with("0\n") && !text(&with).contains("made"), "{}", text(&with));
    // It has the socket of the proxy, and nothing else of the sandbox except constant files.
    let mark = unique("sight");
    let up = home.path().join("work/up");
    let command = reaching(&home, &["example.com"], &format!(": {mark}; touch up; sleep 600"));
    let look = async {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let bridges = bridges_of(std::process::id());
        assert_eq!(bridges.len(), 1, "{bridges:?}");
        let open = std::fs::read_dir(format!("/proc/{}/fd", bridges[0])).unwrap().flatten();
        let mut open: Vec<(i32, String)> = open
            .map(|entry| {
                let to = std::fs::read_link(entry.path()).unwrap().display().to_string();
                (entry.file_name().to_str().unwrap().parse().unwrap(), to)
            })
            .collect();
        open.sort();
        for (number, to) in open {
            let fits = match number {
                0..=2 => to == "/dev/null",
                7 => to.contains("prowess-proxy-"),
                10..=12 => to.starts_with("/memfd:/etc/"),
                _ => to.starts_with("socket:"),
            };
            assert!(fits, "{number} {to}");
        }
    };
    tokio::select! {
        finished = home.finish(command) => panic!("{finished:?}"),
        () = look => {}
    }
}

/// The bridges that a process started, even if it is dead: the path of their socket has its number.
fn bridges_of(process: u32) -> Vec<u32> {
    let socket = format!("/prowess-proxy-{process}-");
    let number = |path: std::path::PathBuf| path.file_name()?.to_str()?.parse().ok();
    let leads_there = |one: &u32| {
        std::fs::read_link(format!("/proc/{one}/fd/7")).is_ok_and(|to| to.to_string_lossy().contains(&socket))
    };
    processes_with("TCP4-LISTEN:3128").into_iter().filter_map(number).filter(leads_there).collect()
}

async fn no_bridge_left(process: u32) {
    let until = Instant::now() + Duration::from_secs(10);
    while !bridges_of(process).is_empty() {
        assert!(Instant::now() < until, "{:?}", bridges_of(process));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn none_left(mark: &str) {
    let until = Instant::now() + Duration::from_secs(20);
    while !processes_with(mark).is_empty() {
        assert!(Instant::now() < until, "{:?}", processes_with(mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn a_second_request_on_the_connection_is_not_heard() {
    let server = Server::answering("first\n");
    let home = Home::new();
    let host = server.rule();
    let one = |length: &str, body: &str| {
        format!(
            "POST http://{host}/ HTTP/1.1\\r\\nHost: {host}\\r\\n{length}Connection: keep-alive\\r\\n\\r\\n{body}"
        )
    };
    let second = "GET http://evil.example/ HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n";
    for (length, body) in [("", ""), ("Content-Length: 3\\r\\n", "abc")] {
        let line = raw(&format!("{}{second}", one(length, body)));
        let said = text(&run(&home, &[&host], &line).await);
        assert_eq!(said.matches("first\n").count(), 1, "{said}");
        // Later, when the response has arrived.
        let late = format!(
            "exec 3<>/dev/tcp/127.0.0.1/3128; printf '{}' >&3; sleep 0.2; printf '{second}' >&3; cat <&3",
            one(length, body)
        );
        run(&home, &[&host], &late).await;
    }
    let heard = server.heard();
    assert_eq!(heard.len(), 4, "{heard:?}");
    assert!(heard.iter().all(|one| !one.contains("evil") && one.contains("Connection: close")), "{heard:?}");
}

async fn what_could_be_two_requests_is_refused() {
    let server = Server::answering("no\n");
    let home = Home::new();
    let host = server.rule();
    let post = format!("POST http://{host}/ HTTP/1.1\\r\\n");
    let heads = [
        format!("{post}Host: evil.example\\r\\n\\r\\n"),
        format!("{post}Host: {host}\\r\\nHost: evil.example\\r\\n\\r\\n"),
        format!("{post}Host: {host}\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nab"),
        format!(
            "{post}Host: {host}\\r\\nContent-Length: 1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n"
        ),
        format!("{post}Host: {host}\\r\\nTransfer-Encoding : chunked\\r\\n\\r\\n0\\r\\n\\r\\n"),
        format!("{post}Host: {host}\\nX: y\\r\\n\\r\\n"),
        format!("{post}Host: {host}\\r\\n X: y\\r\\n\\r\\n"),
        format!("GET / HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n"),
        format!("GET http://{host}@evil.example/ HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n"),
        format!("CONNECT {host} HTTP/1.1\\r\\nHost: evil.example\\r\\n\\r\\n"),
    ];
    for head in heads {
        let said = text(&run(&home, &[&host], &raw(&head)).await);
        assert!(said.starts_with("HTTP/1.1 4"), "{head}: {said}");
    }
    assert!(server.heard().is_empty(), "{:?}", server.heard());
}

async fn a_head_that_is_too_long_is_refused() {
    let home = Home::new();
    let line = "exec 3<>/dev/tcp/127.0.0.1/3128; (printf 'GET http://example.com/'; head -c 200000 /dev/zero | tr '\\0' a) >&3 2>/dev/null; head -n 1 <&3";
    let said = text(&run(&home, &["example.com"], line).await);
    assert!(said.starts_with("HTTP/1.1 431 "), "{said}");
}

async fn many_connections_wait_for_their_turn() {
    let server = Server::answering("turn\n");
    let home = Home::new();
    // More connections than allowed at once; half of the clients never send anything.
    let line = format!(
        "for n in $(seq 40); do (exec 3<>/dev/tcp/127.0.0.1/3128; exec sleep 3) & done; \
         for n in $(seq 40); do ({}) & done; wait",
        get(&server.rule())
    );
    let finished = run(&home, &[&server.rule()], &line).await;
    assert_eq!(text(&finished).matches("turn\n").count(), 40, "{:?} {}", finished.exit, text(&finished));
}

async fn a_large_body_comes_through() {
    let body = "0123456789abcdef".repeat(1 << 18);
    let server = Server::answering(&body);
    let home = Home::new();
    let line = format!("{} | tail -c {} | sha256sum", get(&server.rule()), body.len());
    let said = text(&run(&home, &[&server.rule()], &line).await);
    let expected =
        text(&home.run("for n in $(seq 262144); do printf 0123456789abcdef; done | sha256sum").await);
    assert_eq!(said, expected);
}

async fn below_namespaces_it_is_refused() {
    for level in [Level::Landlock, Level::None] {
        let mut options = LocalOptions::default();
        (options.strongest, options.least) = (level, level);
        let home = Home::with(options);
        let command = reaching(&home, &["example.com"], "true");
        let error = home.executor.run(command, &NoSink).await.unwrap_err();
        assert!(
            matches!(&error, ExecuteError::Refused(why) if why.contains("need the sandbox level `bwrap`")),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(home.path().join("runs")).unwrap().count(), 0);
    }
}

async fn without_socat_it_is_refused() {
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for program in ["setpriv", "bwrap"] {
        symlink(format!("/usr/bin/{program}"), programs.path().join(program)).unwrap();
    }
    let mut options = LocalOptions::default();
    options.programs = Some(vec![programs.path().to_owned()]);
    let home = Home::with(options);
    let error = home.executor.run(reaching(&home, &["example.com"], "true"), &NoSink).await.unwrap_err();
    let ExecuteError::NoSandbox { what, remedy } = error else { panic!("{error}") };
    assert_eq!(what, "allowed hosts need socat, which was not found");
    assert!(remedy.starts_with("Install the package `socat`"), "{remedy}");
    assert_eq!(home.says("echo without").await, "without\n");
}

async fn a_bridge_that_does_not_start_is_told() {
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for program in ["setpriv", "bwrap"] {
        symlink(format!("/usr/bin/{program}"), programs.path().join(program)).unwrap();
    }
    symlink("/bin/false", programs.path().join("socat")).unwrap();
    let mut options = LocalOptions::default();
    options.programs = Some(vec![programs.path().to_owned()]);
    let home = Home::with(options);
    let error = home.executor.run(reaching(&home, &["example.com"], "touch ran"), &NoSink).await.unwrap_err();
    assert_eq!(error.to_string(), "set up the sandbox: the bridge to the proxy did not start");
    assert!(!home.path().join("work/ran").exists());
}

async fn without_proc_there_is_a_network_too() {
    let server = Server::answering("no proc\n");
    let programs = tempfile::tempdir().unwrap();
    std::fs::set_permissions(programs.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    for program in ["setpriv", "socat"] {
        symlink(format!("/usr/bin/{program}"), programs.path().join(program)).unwrap();
    }
    let shim = programs.path().join("bwrap");
    let script = "#!/bin/sh\nexec /usr/bin/bwrap --dev-bind / / --die-with-parent --ro-bind /dev/null /proc/version -- /usr/bin/bwrap \"$@\"\n";
    std::fs::write(&shim, script).unwrap();
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut options = LocalOptions::default();
    options.programs = Some(vec![programs.path().to_owned()]);
    options.least = Level::BwrapNoproc;
    let home = Home::with(options);
    let finished = run(&home, &[&server.rule()], &get(&server.rule())).await;
    assert_eq!(finished.sandbox.level, Level::BwrapNoproc);
    assert!(text(&finished).ends_with("no proc\n"), "{}", text(&finished));
}

/// A command line that holds a connection to the proxy and to a host, and never ends.
fn holding(server: &Server, mark: &str) -> String {
    format!(
        ": {mark}; exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT {} HTTP/1.1\\r\\n\\r\\n' >&3; read -r line <&3; \
         touch up$RANDOM$RANDOM; sleep 600",
        server.rule()
    )
}

/// Waits until this many such commands hold their connections.
async fn are_up(home: &Home, count: usize) {
    while std::fs::read_dir(home.path().join("work")).unwrap().count() < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn the_end_of_its_time_takes_the_bridge_with_it() {
    let server = Server::answering("x");
    let home = Home::new();
    let mut command = reaching(&home, &[&server.rule()], &holding(&server, "time"));
    command.limits.timeout = Duration::from_secs(3);
    let seen = async {
        are_up(&home, 1).await;
        // One that listens, and one that carries bytes.
        assert_eq!(bridges_of(std::process::id()).len(), 2);
    };
    let (finished, ()) = tokio::join!(home.finish(command), seen);
    assert_eq!(finished.exit, Exit::TimedOut);
    no_bridge_left(std::process::id()).await;
}

async fn a_dropped_run_has_no_bridge() {
    let server = Server::answering("x");
    let home = Home::new();
    let mark = unique("dropped");
    tokio::select! {
        finished = home.finish(reaching(&home, &[&server.rule()], &holding(&server, &mark))) => panic!("{finished:?}"),
        () = are_up(&home, 1) => {}
    }
    no_bridge_left(std::process::id()).await;
    none_left(&mark).await;
}

async fn many_runs_with_a_network_leave_nothing_behind() {
    let server = Server::answering("ok\n");
    let home = Arc::new(Home::new());
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let (rule, line) = (server.rule(), format!("{}; sleep 60 &", get(&server.rule())));
    run(&home, &[&rule], &line).await;
    let before = descriptors();
    for _ in 0..5 {
        let runs = (0..4).map(|_| {
            let (home, rule, line) = (Arc::clone(&home), rule.clone(), line.clone());
            tokio::spawn(async move { text(&run(&home, &[&rule], &line).await) })
        });
        for run in runs.collect::<Vec<_>>() {
            let said = run.await.unwrap();
            assert!(said.ends_with("ok\n"), "{said}");
        }
    }
    no_bridge_left(std::process::id()).await;
    // The server of this test reads until its clients end.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(descriptors() <= before + 4, "{} {before}", descriptors());
    let own = format!("prowess-proxy-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    assert!(left.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(&own)));
}

async fn a_bridge_is_seen_off_by_who_started_it() {
    // As in a container without an init: a process that nobody reaps would stay as our child.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let server = Server::answering("ok\n");
    let home = Home::new();
    for _ in 0..5 {
        let said =
            text(&run(&home, &[&server.rule()], &format!("({}); sleep 0.3", get(&server.rule()))).await);
        assert!(said.ends_with("ok\n"), "{said}");
    }
    let own = format!(") Z {} ", std::process::id());
    let stats = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("stat"));
    let left: Vec<String> = stats
        .filter_map(|stat| std::fs::read_to_string(stat).ok())
        .filter(|stat| stat.contains(&own))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Marks the processes of the victim.
const MARK: &str = "PROWESS_TEST_BRIDGED_VICTIM";

/// The process that is killed: it starts endless commands with a network.
#[test]
fn victim() {
    let Ok(mark) = std::env::var(MARK) else { return };
    crate::modes::run("sandbox::hosts::victim", Mode::User, async {
        let (server, home) = (Server::answering("x"), Arc::new(Home::new()));
        let runs: Vec<_> = (0..8)
            .map(|_| {
                let home = Arc::clone(&home);
                let (rule, line) = (server.rule(), holding(&server, &mark));
                tokio::spawn(async move { run(&home, &[&rule], &line).await })
            })
            .collect();
        are_up(&home, runs.len()).await;
        println!("all are up");
        for run in runs {
            run.await.unwrap();
        }
    });
}

async fn case_70_a_killed_runtime_leaves_no_bridge() {
    // Once when all run, and a few times while they start.
    for wait in [None, Some(0), Some(4), Some(8), Some(15), Some(30), Some(60)] {
        let mark = unique("bridged");
        let mut command = again("sandbox::hosts::victim", Mode::Root, false);
        let mut victim =
            command.env(MARK, &mark).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        match wait {
            None => {
                let lines = BufReader::new(victim.stdout.take().unwrap()).lines();
                assert!(lines.map_while(Result::ok).any(|line| line.contains("all are up")));
                assert_eq!(bridges_of(victim.id()).len(), 16);
            }
            Some(wait) => {
                while processes_with(&mark).is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                tokio::time::sleep(Duration::from_millis(wait)).await;
            }
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        no_bridge_left(victim.id()).await;
        none_left(&mark).await;
    }
}
