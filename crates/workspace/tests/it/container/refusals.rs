//! Commands that the container executor refuses, and its messages.

use prowess_workspace::executor::NoSink;
use prowess_workspace::{ContainerExecutor, ExecuteError, Executor as _, Level, Network};

use super::engine::{Home, options};

#[tokio::test]
async fn no_engine_is_a_clear_error() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut options = options();
    let socket = nowhere.path().join("engine.sock");
    options.socket = Some(socket.clone());
    let home = Home::with(options.clone());
    let error = home.executor.run(home.command("true"), &NoSink).await.unwrap_err();
    let ExecuteError::NoSandbox { what, remedy } = error else { panic!("{error}") };
    assert_eq!(what, format!("no container engine answers at {} (no such socket)", socket.display()));
    assert!(remedy.contains("podman") && remedy.contains("DOCKER_HOST=unix://"), "{remedy}");
    // A socket without useful answers is not an engine either.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let error = ContainerExecutor::new(options).probe().await.unwrap_err().to_string();
    assert!(error.contains("engine.sock (Connection refused"), "{error}");
}

#[tokio::test]
async fn a_missing_image_is_a_clear_error() {
    let mut options = options();
    options.image = "localhost/no-such-image:1".to_owned();
    let home = Home::with(options);
    for error in [
        home.executor.run(home.command("true"), &NoSink).await.unwrap_err(),
        home.executor.probe().await.unwrap_err(),
    ] {
        let ExecuteError::NoSandbox { what, remedy } = error else { panic!("{error}") };
        assert!(what.contains("has no image \"localhost/no-such-image:1\""), "{what}");
        assert!(remedy.contains("pull localhost/no-such-image:1`"), "{remedy}");
    }
    assert_eq!(std::fs::read_dir(home.path().join("runs")).unwrap().count(), 0);
}

#[tokio::test]
async fn network_is_refused() {
    let home = Home::new();
    let mut command = home.command("true");
    command.network = Network::Hosts(vec!["example.com".parse().unwrap()]);
    let error = home.executor.run(command, &NoSink).await.unwrap_err();
    assert!(matches!(&error, ExecuteError::Refused(why) if why.contains("no network")), "{error}");
}

#[tokio::test]
async fn terminals_are_refused() {
    let home = Home::new();
    let mut command = home.command("true");
    command.terminal = true;
    let error = home.executor.run(command, &NoSink).await.unwrap_err();
    assert!(matches!(&error, ExecuteError::Refused(why) if why.contains("no terminals")), "{error}");
}

#[tokio::test]
async fn what_is_there_is_told() {
    let executor = ContainerExecutor::new(options());
    let engine = executor.engine().await.unwrap();
    assert!(["Docker", "Podman"].contains(&engine.kind.name()) && !engine.version.is_empty(), "{engine:?}");
    assert_eq!(Some(engine.socket), options().socket);
    assert_eq!(executor.probe().await.unwrap().level, Level::Container);
}
