//! Every form of a source that `skills` knows, in its order, and every text that is refused.

use std::fmt::Write as _;
use std::path::Path;

use prowess_install::source::{LocalKind, Source, SourceEnvironment, SourceError, SourceType};

/// The forms of section "Source syntax" with their numbers.
const FORMS: &[(&str, &[&str])] = &[
    (
        "1 local",
        &[
            "/srv/skills",
            "./skills",
            "../skills",
            ".",
            "..",
            r"C:\skills",
            "C:/skills",
            "./skills#main",
            "./tide.skill",
            "tide.skill",
            "dist/tide.skill",
            "/tmp/tide.ZIP",
            "./tide.tar",
            "./tide.tar.gz",
            "./tide.tgz",
        ],
    ),
    (
        "2 fragment",
        &[
            "o/r#main",
            "o/r#feature/tide",
            "o/r#feature%2Ftide@my%20skill",
            "o/r#main@tide",
            "o/r#@tide",
            "o/r/skills#main",
            "o/r@wave#main@tide",
            "github:o/r#main@tide",
            "gitlab:g/r#main@tide",
            "https://github.com/o/r#v1",
            "https://github.com/o/r/tree/main/skills#@tide",
            "https://example.com/r.git#main",
            "git@example.com:o/r.git#main",
            "ssh://git@example.com/o/r.git#main",
            "file:///srv/r.git#main@tide",
            "o/r#0123456789abcdef0123456789abcdef01234567",
            "https://example.com/skills#main",
        ],
    ),
    ("3 alias", &["coinbase/agentWallet", "vercel-labs/vercel-skills", "vercel-labs/vercel-skills#main"]),
    (
        "4 prefix",
        &[
            "github:o/r",
            "github:o/r/skills/tide",
            "github:o/r@tide",
            "gitlab:g/r",
            "gitlab:g/sub/group/r",
            "gitlab:g/r/-/tree/main/skills",
        ],
    ),
    (
        "5 artifact",
        &[
            "https://raw.githubusercontent.com/o/r/main/SKILL.md",
            "https://codeload.github.com/o/r/zip/main",
            "https://objects.githubusercontent.com/x",
            "https://github.com/o/r/archive/refs/heads/main.zip",
            "https://github.com/o/r/raw/main/SKILL.md",
            "https://github.com/o/r/releases/download/v1/tide.skill",
            "https://github.com/o/r/releases/latest/download/tide.zip",
            "https://gitlab.com/g/r/-/archive/main/r.tar.gz",
            "https://gitlab.com/g/r/-/raw/main/SKILL.md",
        ],
    ),
    (
        "7 GitHub",
        &[
            "https://github.com/o/r",
            "https://github.com/o/r/",
            "https://github.com/o/r.git",
            "http://www.github.com/o/r",
            "github.com/o/r",
            "https://github.com/o/r/tree/main",
            "https://github.com/o/r/tree/main/skills/my%20tide",
            "https://github.com/o/r/blob/main/skills/tide/SKILL.md",
            "https://token@github.com/o/r",
        ],
    ),
    (
        "8 GitLab",
        &[
            "https://gitlab.com/g/r",
            "https://gitlab.com/g/sub/r.git",
            "https://gitlab.com/g/r/-/tree/main",
            "https://gitlab.com/g/r/-/tree/main/skills",
            "https://git.example.com/g/sub/r/-/tree/main/skills",
            "https://git.example.com:8443/r/-/tree/main",
        ],
    ),
    (
        "9 Azure",
        &[
            "https://dev.azure.com/org/project/_git/r",
            "https://dev.azure.com/org/my%20project/_git/r?path=/skills/tide&version=GBmain",
            "https://org.visualstudio.com/project/_git/r?version=GTv1.0",
            "https://dev.azure.com/org/project/_git/r#main@tide",
        ],
    ),
    ("10 shorthand", &["o/r@tide", "o/r", "o/r/", "o/r.git", "o/r/skills/tide", "o/r/a@b", "my.org/r_2-x"]),
    (
        "11 web site",
        &[
            "https://example.com",
            "https://www.example.com/docs?lang=en",
            "http://127.0.0.1:8080/",
            "http://[::1]:8080/",
            "https://bitbucket.org/o/r",
            "https://example.com/tide/SKILL.md",
            "https://example.com/tide.skill",
            "https://example.com/tide.zip?download=1",
            "https://example.com/tide.tar",
            "https://example.com/tide.tar.gz",
            "https://example.com/tide.tgz",
            "https://ada:hunter2@example.com/skills?token=hunter2",
        ],
    ),
    (
        "12 Git URL",
        &[
            "git@github.com:o/r.git",
            "git@example.com:o/r",
            "ssh://git@github.com/o/r.git",
            "ssh://git:hunter2@example.com:2222/~ada/r",
            "git://example.com/r.git",
            "https://example.com/o/r.git",
            "https://ada:hunter2@example.com/o/r.git",
            "http://example.com/r.git",
            "file:///srv/r",
            "file:///srv/r.git",
            "file://localhost/srv/r.git",
        ],
    ),
];

/// The forms that `GH_HOST=git.example.com` changes.
const ENTERPRISE: &[&str] = &[
    "https://git.example.com/o/r",
    "https://git.example.com/o/r.git",
    "https://git.example.com/o/r/tree/main/skills",
    "https://github.com/o/r",
    "o/r",
    "o/r@tide",
    "github:o/r",
];

/// The texts that are refused, with the forms 13 and "`..` in a subpath".
const REFUSED: &[&str] = &[
    "",
    "npm:left-pad",
    "notion",
    "https://www.notion.so/Skill-0123456789abcdef0123456789abcdef",
    "https://acme.notion.com/x",
    "o/r/../../etc",
    "https://github.com/o/r/tree/main/%2e%2e%2fx",
    "https://dev.azure.com/o/p/_git/r?path=/a/../../b",
    "o/r/a\\..\\b",
    "skills",
    "~/skills",
    "C:skills",
    "https://github.com/o",
    "https://github.com/o/r/issues/7",
    "https://gitlab.com/r",
    "https://gitlab.com/g/r/-/issues",
    "ftp://example.com/r.git",
    "javascript://x",
    "git+ssh://example.com/r",
    "https://",
    "ssh://git@/r",
    "file://example.com/share/r.git",
    "https://ada:hunter/2@example.com/r.git",
    "ada:hunter2@example.com/r",
    "-ada:hunter2@example.com/r",
    "github:ada:hunter2@example.com/r",
];

fn row(text: &str, environment: &SourceEnvironment) -> String {
    // The text as typed has the password; everything that prowess makes of it must not.
    let mut row = format!("{}\n", text.replace("hunter", "secret"));
    match Source::parse(text, environment) {
        Err(error) => {
            let _ = writeln!(row, "    error: {error}");
        }
        Ok(source) => {
            let form = match &source {
                Source::Local(local) if local.kind == LocalKind::Archive => "archive",
                Source::Local(_) => "directory",
                Source::Git(git) => git.host.as_str(),
                Source::Download(_) => "download",
                Source::WellKnown(_) => "web site",
                _ => "unknown",
            };
            let fields = source.lock_fields();
            let _ = writeln!(row, "    {form}: {source}");
            let _ = writeln!(
                row,
                "    lock: {} {}{}{}",
                fields.source_type.as_str(),
                fields.source,
                fields.project_url().map(|url| format!(" url={url}")).unwrap_or_default(),
                fields.reference.map(|name| format!(" ref={name}")).unwrap_or_default(),
            );
        }
    }
    row
}

#[test]
fn every_form_of_a_source() {
    let mut table = String::new();
    let plain = SourceEnvironment::default();
    for (number, texts) in FORMS {
        let _ = writeln!(table, "## {number}");
        table.extend(texts.iter().map(|text| row(text, &plain)));
    }
    let _ = writeln!(table, "## 6 GH_HOST=git.example.com");
    let enterprise = SourceEnvironment::new(Some(" Git.example.com "));
    table.extend(ENTERPRISE.iter().map(|text| row(text, &enterprise)));
    let _ = writeln!(table, "## 13 and others: refused");
    table.extend(REFUSED.iter().map(|text| row(text, &plain)));
    assert!(!table.contains("hunter"), "a password is shown:\n{table}");
    insta::assert_snapshot!(table);
}

/// What a lock says about a source is enough to find it again.
#[test]
fn a_source_comes_back_from_its_lock() {
    let environment = SourceEnvironment::default();
    for text in FORMS.iter().flat_map(|(_, texts)| texts.iter()) {
        let source = Source::parse(text, &environment).unwrap();
        let reference = source.lock_fields().reference;
        let again = Source::from_lock(
            &source.source_type(),
            &source.location(),
            reference.as_deref(),
            Path::new("/project"),
        )
        .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(again.source_type(), source.source_type(), "{text}");
        match &source {
            Source::Local(_) => {}
            _ => assert_eq!(again.location(), source.location(), "{text}"),
        }
        assert_eq!(again.lock_fields().reference, reference, "{text}");
    }
    let local = Source::from_lock(&SourceType::Local, "../skills", None, Path::new("/project/x")).unwrap();
    assert_eq!(local.location(), "/project/x/../skills");
    for (kind, location, reference) in [
        (SourceType::Git, "ext::sh -c id", None),
        (SourceType::Git, "--upload-pack=x", None),
        (SourceType::Git, "https://example.com/r.git", Some("--upload-pack=x")),
        (SourceType::Git, "https://example.com/r.git", Some("+a:b")),
        (SourceType::WellKnown, "file:///etc/passwd", None),
        (SourceType::Download, "ftp://example.com/a.zip", None),
        (SourceType::GitHub, "/etc", None),
        (SourceType::Local, "a\0b", None),
        (SourceType::NodeModules, "left-pad", None),
        (SourceType::Other("mercurial".to_owned()), "https://example.com/r", None),
    ] {
        assert!(Source::from_lock(&kind, location, reference, Path::new("/")).is_err(), "{location}");
    }
}

#[test]
fn case_126_options_and_transports_are_refused() {
    let environment = SourceEnvironment::default();
    let parse = |text: &str| Source::parse(text, &environment);
    for text in
        ["ext::sh -c id", "EXT::x", "fd::7", "http::https://x", "a+b.c-d::x", "::x", "ext::https://x#main"]
    {
        assert!(matches!(parse(text), Err(SourceError::Transport(_))), "{text}");
    }
    for text in [
        "--upload-pack=touch /tmp/x",
        "-c core.sshCommand=x",
        "-oProxyCommand=x@h:p",
        "o/r#--upload-pack=x",
        "o/r#%2D-upload-pack=x",
        "o/r@-x",
        "o/r#main@--x",
        "-o/r",
        "o/-r",
        "o/r/-x",
        "git@-oProxyCommand=x:p",
        "git@h:-p",
        "ssh://-oProxyCommand=x/r",
        "ssh://%2DoProxyCommand=x/r",
        "ssh://-x@h/r",
        "https://github.com/o/r/tree/--upload-pack=x",
        "https://gitlab.com/-g/r",
    ] {
        assert!(matches!(parse(text), Err(SourceError::LooksLikeOption(_))), "{text}: {:?}", parse(text));
    }
    for text in [
        "o/r\0",
        "o/r\n--x",
        "./a\u{1b}[2J",
        "o/r\u{202e}",
        "https://example.com/%00",
        "https://h/%E2%80%AE.git",
    ] {
        assert!(matches!(parse(text), Err(SourceError::Unprintable(_))), "{text:?}: {:?}", parse(text));
    }
    for text in
        ["github:ext::x", "github:./x", "github:../../x", "gitlab:../x", "github:https://evil.example/o/r"]
    {
        assert!(parse(text).is_err(), "{text}: {:?}", parse(text));
    }
    assert_eq!(parse(&"a/".repeat(3000)), Err(SourceError::TooLong));
    // A host is never found in a path or a query.
    for text in ["https://evil.example/github.com/o/r", "https://evil.example/?x=github.com/o/r"] {
        assert!(matches!(parse(text), Ok(Source::WellKnown(_))), "{text}");
    }
}
