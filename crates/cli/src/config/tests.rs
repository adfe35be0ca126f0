//! Sources, origins and mistakes, without a disk.

use insta::assert_snapshot;
use prowess_permission::{Decision, Kind};

use super::setting::Whole;
use super::source::Owner;
use super::*;

/// Everything that can be set.
const GUIDE: &str = r#"
    [model]
    name = "local:some/model"
    effort = "high"
    context_window = 200_000
    max_output_tokens = 8000
    [provider.local]
    api = "openai"
    base_url = "http://127.0.0.1:11434/v1"
    [provider.openai]
    key_command = ["pass", "show", "openai"]
    [skills]
    roots = ["/skills"]
    max_loaded_skills = 3
    max_loaded_tokens = 50000
    allowed_tools = "restrict"
    kits = ["docs"]
    overview.budget = 2000
    [skills.mode]
    pdf = "pinned"
    "docs-*" = "name"
    [skills.kit]
    docs = ["docs-*", "pdf"]
    [sandbox]
    executor = "container"
    level = "bwrap-noproc"
    image = "node"
    hosts = ["pypi.org", "*.example.com:8443"]
    [limits]
    cost = 2.5
    [price."gpt-5*"]
    input = 1.25
    output = 10
    [permission]
    run = "deny"
    [agent.chat.permission]
    run = "allow"
    [telemetry]
    endpoint = "http://127.0.0.1:4318"
    [[hooks.PreToolUse]]
    matcher = "ls"
    hooks = [{ type = "command", command = "true" }]
    "#;

fn source(owner: Owner, text: &str) -> Source {
    let path = match owner {
        Owner::User => "/home/me/prowess.toml",
        Owner::Project => "/project/prowess.toml",
    };
    Source { owner, path: path.into(), bytes: text.as_bytes().to_vec() }
}

fn load(user: &str, project: &str, variables: &[(&str, &str)], flags: &[Flag]) -> Result<Config> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let user = source(Owner::User, user);
    let project = source(Owner::Project, project);
    Config::from_sources(Some(&user), &OfProject::Whole(project), variables, flags)
}

fn origin(config: &Config, key: &str) -> Origin {
    config.rows.iter().find(|row| row.path.join(".") == key).map(|row| row.origin.clone()).unwrap()
}

fn refusal(user: &str) -> String {
    load(user, "", &[], &[]).err().map_or_else(|| "nothing is wrong".to_owned(), |error| format!("{error:#}"))
}

#[test]
fn each_source_overrides_those_before_it_and_is_named() {
    let flag = Flag { key: "limits.model_calls", name: "--max-model-calls", text: "4".to_owned() };
    let config = load(
        "[model]\nname = \"openai:a\"\ncontext_window = 5000\n[limits]\nmodel_calls = 1\ntokens = 1\ncost = 1\n",
        "[model]\ncontext_window = 6000\n",
        &[
            ("PROWESS_LIMITS_MODEL_CALLS", "3"),
            ("PROWESS_LIMITS_TOKENS", "3"),
            ("PROWESS_TEST_X", "1"),
            ("HOME", "/"),
        ],
        &[flag],
    )
    .unwrap();
    let limits = &config.settings.limits;
    assert_eq!(
        (limits.model_calls, limits.tokens, limits.cost),
        (Whole(4), Some(Whole(3)), Some(Amount(1.0)))
    );
    assert_eq!(config.settings.model.name.to_string(), "openai:a");
    assert_eq!(origin(&config, "model.name"), Origin::User("/home/me/prowess.toml".into(), 2));
    assert_eq!(origin(&config, "model.context_window"), Origin::Project("/project/prowess.toml".into(), 2));
    assert_eq!(origin(&config, "limits.tokens"), Origin::Environment("PROWESS_LIMITS_TOKENS".to_owned()));
    assert_eq!(origin(&config, "limits.model_calls"), Origin::Flag("--max-model-calls"));
    assert_eq!(origin(&config, "skills.max_loaded_skills"), Origin::Default);
}

#[test]
fn the_defaults_count_if_nobody_sets_anything() {
    let settings = Config::from_sources(None, &OfProject::Nothing, [], &[]).unwrap().settings;
    assert_eq!(settings.model.name, ModelName::Offline);
    assert_eq!(settings.skills.max_loaded_skills.size(), 10);
    assert_eq!(settings.sandbox.image, "python:3-slim");
    assert_eq!(settings.provider.keys().map(|name| &**name).collect::<Vec<_>>(), ["anthropic", "openai"]);
    assert_eq!(settings.provider["openai"].key_env.as_deref(), Some("OPENAI_API_KEY"));
    assert_eq!((settings.provider["anthropic"].api, settings.price.len()), (Api::Anthropic, 0));
}

#[test]
fn everything_in_the_guide_can_be_set() {
    let config = load(
        GUIDE,
        "[permission]\nread = \"allow\"\n[[hooks.PreToolUse]]\nhooks = [{ type = \"prompt\", prompt = \"x\" }]",
        &[("PROWESS_PROVIDER_LOCAL_KEY_ENV", "LOCAL"), ("PROWESS_SANDBOX_HOSTS", "a.example, b.example")],
        &[],
    )
    .unwrap();
    let local = ModelName::Of { provider: "local".to_owned(), model: "some/model".to_owned() };
    assert_eq!(config.settings.model.name, local);
    assert_eq!(config.settings.provider["local"].key_env.as_deref(), Some("LOCAL"));
    assert!(config.settings.provider["openai"].key_env.is_none(), "a command takes the default's place");
    assert_eq!(config.settings.sandbox.hosts.len(), 2);
    assert_eq!(config.settings.prices().unwrap().of("gpt-5.1").unwrap().input.to_string(), "1.25");
    assert_eq!(config.hooks().unwrap().len(), 2);
    let decide =
        |agent: &str, kind| config.policy(agent, &WorkspaceDir::default()).decide(&kind, "x").decision;
    assert_eq!(decide("chat", Kind::RUN), Decision::Allow);
    assert_eq!(decide("other", Kind::RUN), Decision::Deny);
    assert_eq!(decide("other", Kind::READ), Decision::Allow, "a project's rules count");
}

#[test]
fn every_mistake_in_a_file_is_one_line_with_its_place() {
    let mistakes = [
        "[model]\n\nnmae = \"offline\"",
        "[modle]\nname = \"offline\"",
        "permissions = 1",
        "[zebra]",
        "model = 3",
        "[model]\nname = 3",
        "[model]\nname = \"gpt\"",
        "[model]\nname = \"opnai:gpt\"",
        "[model]\nname = \"zebra:gpt\"",
        "[model]\neffort = \"hgih\"",
        "[model]\ncontext_window = -1",
        "[model]\ncontext_window = 99999999999999999999",
        "[model]\ncontext_window = 9999999999",
        "[model]\ncontext_window = \"many\"",
        "[model]\nname = \"offline\"\nname = \"offline\"",
        "[model",
        "[provider.local]\napi = \"openai\"",
        "[provider.\"A B\"]\napi = \"openai\"",
        "[provider.local]\napi = \"openai\"\nbase_url = \"127.0.0.1\"",
        "[provider.openai]\nkey_env = \"sk-1234 5678\"",
        "[provider.openai]\nkey_env = \"A\"\nkey_command = [\"b\"]",
        "[provider.openai]\nkey_command = \"pass show\"",
        "[provider.openai]\nkey_command = []",
        "[provider.openai]\nkey = \"sk-1234\"",
        "[skills]\nroots = [\"skills\"]",
        "[skills]\nroots = [1]",
        "[skills]\nmax_loaded_skills = 0",
        "[sandbox]\nlevel = \"strong\"",
        "[sandbox]\nhosts = [\"*.com\"]",
        "[sandbox]\nengine_socket = \"podman.sock\"",
        "[sandbox]\nallow_loaders = [\"\"]",
        "[memory]\nfiles = [\"../AGENTS.md\"]",
        "[memory]\nfiles = \"AGENTS.md\"",
        "[limits]\ncost = -1",
        "[limits]\ncost = inf",
        "[price.a]\ninput = 1",
        "[price.\"a*b\"]\ninput = 1\noutput = 1",
        "[price.a]\ninput = 0.12345678\noutput = 1",
        "[mcp.docs]\nenv = []",
        "[mcp.docs]",
        "[mcp.docs]\ncommand = [\"a\"]\nenv = [\"\"]",
        "[mcp.docs]\ncommand = [\"a\"]\nurl = \"https://a.example\"",
        "[mcp.docs]\ncommand = [\"./a\"]",
        "[mcp.\"Our docs\"]\ncommand = [\"a\"]",
        "[mcp.docs]\nurl = \"http://docs.example/mcp\"",
        "[mcp.docs]\nurl = \"https://a.example\"\ntoken_env = \"sk-1234\"",
        "[mcp.docs]\ncommand = [\"a\"]\nenv = [\"A=sk-1234\"]",
        "[mcp.docs]\ncommand = [\"a\"]\ngrants = [\"skill://pdf\"]",
        "[permission]\nrun = \"alow\"",
        "[agent.chat]\nmodel = \"x\"",
        "[hooks]\nPreToolUsed = []",
        "[[hooks.Stop]]\n\nhooks = [{ type = \"comand\" }]",
        "hooks = 1",
        "[telemetry]\nendpoint = \"localhost\"",
        "[serve]\nport = 1",
        "[serve.oidc]\nissuer = \"http://login.example\"",
        "[serve.oidc]\nissuer = \"https://login.example\"\npublic_url = \"https://a.example\"",
        "[serve.oidc]\nclient_secret_env = \"sk-1234\"",
        "[serve.oidc]\nclient_secret = \"sk-1234\"",
        "[serve.oidc]\nclient_secret_env = \"A\"\nclient_secret_file = \"/a\"",
        "[serve.oidc]\nusers = \"everybody\"",
        "[serve.oidc]\nemail_domains = [\"example.com\"]",
    ];
    let told: Vec<String> = mistakes
        .iter()
        .map(|text| {
            let refusal = refusal(text);
            assert!(!refusal.contains('\n') && !refusal.contains("sk-1234"), "{refusal}");
            format!("{}\n    {refusal}", text.replace('\n', " ⏎ "))
        })
        .collect();
    assert_snapshot!(told.join("\n"));
}

#[test]
fn a_project_cannot_set_what_is_the_user_s() {
    for (text, key) in [
        ("[provider.openai]\nbase_url = \"https://evil.example\"", "provider.openai.base_url"),
        ("[sandbox]\nlevel = \"none\"", "sandbox.level"),
        ("[skills]\nmax_loaded_skills = 2\nroots = [\"/\"]", "skills.roots"),
        ("[memory]\nfiles = [\"/etc/passwd\"]", "memory.files"),
        ("[price.a]\ninput = 0\noutput = 0", "price.a.input"),
        ("[telemetry]\nendpoint = \"https://evil.example\"", "telemetry.endpoint"),
        ("[serve.oidc]\nissuer = \"https://evil.example\"", "serve.oidc.issuer"),
    ] {
        let error = load("", text, &[], &[]).err().unwrap().to_string();
        assert!(error.starts_with("/project/prowess.toml:"), "{error}");
        assert!(
            error.contains("only your own file") && error.contains(&format!(" may set `{key}`")),
            "{error}"
        );
    }
}

#[test]
fn a_project_is_not_told_to_fill_a_table_that_it_may_not_have() {
    for table in ["provider.local", "mcp.docs", "price.a"] {
        let error = load("", &format!("[{table}]"), &[], &[]).err().unwrap().to_string();
        assert!(error.starts_with("/project/prowess.toml:1: only your own file"), "{error}");
        assert!(error.ends_with(&format!(" may have the table [{table}]; move it there")), "{error}");
    }
    // It adds nothing to a table that is there.
    load("", "[provider.openai]", &[], &[]).unwrap();
    // Not all keys of this table are the user's.
    load("", "[skills]", &[], &[]).unwrap();
}

#[test]
fn a_message_does_not_repeat_a_list_that_may_hold_secrets() {
    for text in [
        "[provider.local]\napi = \"openai\"\nbase_url = [\"http://me:SECRET@host\"]",
        "[[mcp.docs]]\ntoken_env = \"SECRET\"",
        "[[provider.openai]]\nkey_command = [\"SECRET\"]",
    ] {
        let error = load(text, "", &[], &[]).err().unwrap().to_string();
        assert!(error.contains(", not this list") && !error.contains("SECRET"), "{error}");
    }
}

#[test]
fn a_message_about_an_old_key_names_it_as_the_file_does() {
    let (old, new) = ("`limits.steps`", "(now called `limits.model_calls`)");
    assert_eq!(
        refusal("[limits]\nsteps = 0"),
        format!("/home/me/prowess.toml:2: {old} {new} must be a whole number of 1 or more, not 0")
    );
    assert_eq!(
        refusal("[limits]\nsteps = 9999999999"),
        format!(
            "/home/me/prowess.toml:2: {old} {new}: write a whole number of 4294967295 or less, not 9999999999"
        )
    );
    let forbidden = load("", "[limits]\nsteps = 5", &[], &[]).err().unwrap().to_string();
    assert!(forbidden.starts_with("/project/prowess.toml:2: only your own file"), "{forbidden}");
    assert!(forbidden.ends_with(&format!(" may set {old} {new}; move it there")), "{forbidden}");
    let price = refusal("[price.\"a b\"]\ninput = 1\noutput = 1\ncache_written = -1");
    assert_eq!(
        price,
        "/home/me/prowess.toml:4: `price.\"a b\".cache_written` (now called `price.\"a b\".cache_write`) must be \
         a number of 0 or more, not -1"
    );
}

#[test]
fn a_project_can_set_these_keys_and_no_others() {
    let keys = |by: read::SetBy| -> Vec<String> {
        let keys = settings::tables().into_iter().flat_map(|table| {
            let name = table.name();
            let keys = table.keys.into_iter().filter(move |key| key.by == by);
            keys.map(move |key| format!("{name}.{}", key.name))
        });
        keys.collect()
    };
    assert_eq!(
        keys(read::SetBy::Narrow),
        ["skills.kits", "skills.manual", "skills.overview.budget", "skills.mode.NAME", "skills.kit.NAME"]
    );
    assert_eq!(
        keys(read::SetBy::All),
        [
            "model.name",
            "model.effort",
            "model.context_window",
            "model.max_output_tokens",
            "skills.max_loaded_skills",
            "skills.max_loaded_tokens",
            "skills.max_document_bytes",
            "skills.resource_depth",
            "skills.dialect",
            "skills.discovery",
            "skills.lifetime",
            "skills.placement",
            "skills.prompt",
            "skills.suggestions",
            "skills.inherited",
            "compaction.trigger",
            "compaction.keep",
            "compaction.truncate_arguments",
            "compaction.truncate_trigger",
            "compaction.truncate_keep",
            "compaction.truncate_max_length",
            "compaction.truncate_text",
        ]
    );
}

#[test]
fn a_wrong_value_is_an_error_even_if_another_source_overrides_it() {
    let error = load("[limits]\ntokens = 0\n", "", &[("PROWESS_LIMITS_TOKENS", "3")], &[]).err().unwrap();
    assert!(error.to_string().starts_with("/home/me/prowess.toml:2: `limits.tokens` must be"), "{error}");
}

#[test]
fn variables_and_options_are_told_by_their_names() {
    let told = |name: &str, value: &str| {
        load("", "", &[(name, value)], &[]).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_snapshot!(
        [
            told("PROWESS_MODEL_NMAE", "offline"),
            told("PROWESS_LIMITS_MODEL_CALLS", "many"),
            told("PROWESS_MODEL_EFFORT", ""),
            told("PROWESS_PROVIDER_LOCAL_API", "smtp"),
            told("PROWESS_PROVIDER_LOCAL_API", "openai"),
            told("PROWESS_PRICE_X_INPUT", "1"),
        ]
        .join("\n")
    );
    assert_eq!(told("PROWESS_MCP_TOKEN", "of a server"), "");
    assert_ne!(told("PROWESS_MCP_TOKENS", "of a server"), "");
    let flag = Flag { key: "model.name", name: "--model", text: "gpt".to_owned() };
    let error = load("", "", &[], &[flag]).err().unwrap().to_string();
    assert_eq!(error, "--model: write PROVIDER:NAME, such as openai:gpt-5.1, or offline, not `gpt`");
}

#[test]
fn an_alias_stands_for_a_model_in_every_source() {
    let name = |user: &str, project: &str, variables: &[(&str, &str)]| {
        load(user, project, variables, &[]).map(|config| config.settings.model.name.to_string())
    };
    let quick = "[alias.quick]\nmodel = \"openai:q\"\n";
    assert_eq!(name(&format!("[model]\nname = \"quick\"\n{quick}"), "", &[]).unwrap(), "openai:q");
    assert_eq!(name(quick, "[model]\nname = \"quick\"\n", &[]).unwrap(), "openai:q");
    assert_eq!(name(quick, "", &[("PROWESS_MODEL_NAME", "quick")]).unwrap(), "openai:q");
    assert!(name("[model]\nname = \"opus\"\n", "", &[]).unwrap().starts_with("anthropic:claude-opus-"));
    assert_eq!(
        name("[alias.opus]\nmodel = \"openai:o\"\n[model]\nname = \"opus\"", "", &[]).unwrap(),
        "openai:o"
    );
    for (user, project, expected) in [
        ("", quick, "only your own file"),
        ("", "[alias.sonnet]\nmodel = \"openai:q\"\n", "only your own file"),
        ("[alias.x]\nmodel = \"opnai:q\"", "", ":2: there is no provider `opnai`; did you mean `openai`?"),
        ("[alias.x]\nmodel = \"opus\"", "", "write PROVIDER:NAME"),
        ("[alias.inherit]\nmodel = \"openai:q\"", "", "an alias has no blanks and no `:`, and is not"),
        ("[alias.\"a b\"]\nmodel = \"openai:q\"", "", "an alias has no blanks"),
        (
            "[alias.x]",
            "",
            "`alias.x.model` (the provider and the model, such as `openai:gpt-5.1`) is missing",
        ),
    ] {
        let told = name(user, project, &[]).unwrap_err().to_string();
        assert!(told.contains(expected), "{user} {project}: {told}");
    }
}

#[test]
fn hostile_files_end_in_one_line() {
    for text in [
        "a = ".to_owned() + &"[".repeat(100_000),
        "a.".repeat(50_000) + "b = 1",
        "[".to_owned() + &"a.".repeat(50_000) + "b]",
        format!("{} = 1", "k".repeat(100_000)),
        format!("[provider.{}]\napi = 1", "k".repeat(100_000)),
        "[model]\nname = \"\u{1b}[2J\u{202e}/\"".to_owned(),
        "\u{feff}[zebra]".to_owned(),
    ] {
        let refusal = refusal(&text);
        assert!(refusal.starts_with("/home/me/prowess.toml:") && refusal.len() < 600, "{refusal}");
        assert!(!refusal.contains(['\u{1b}', '\n', '\u{202e}']), "{refusal}");
    }
    let bytes = Source { bytes: b"[model]\n\xff".to_vec(), ..source(Owner::User, "") };
    let error = Config::from_sources(Some(&bytes), &OfProject::Nothing, [], &[]).err().unwrap().to_string();
    assert_eq!(error, "/home/me/prowess.toml:2: this is not valid UTF-8; save the file as UTF-8");
}

#[test]
fn a_file_that_is_cut_or_garbled_is_read_or_told_in_one_line() {
    let told = |text: &str| {
        let refusal = refusal(text);
        assert!(!refusal.contains('\n') && refusal.len() < 600, "{refusal}");
    };
    for at in 0..GUIDE.len() {
        told(&GUIDE[..at]);
        told(&GUIDE[at..]);
        for other in ["=", "[", "\"", "\n", "9", "é", "\u{0}"] {
            told(&[&GUIDE[..at], other, &GUIDE[at + 1..]].concat());
        }
    }
}

/// The modes of some skills with these files and these kits of the command line.
fn modes(user: &str, project: &str, kits: Option<&str>) -> Vec<&'static str> {
    let flag = kits.map(|kits| Flag { key: "skills.kits", name: "--kit", text: kits.to_owned() });
    let config = load(user, project, &[], flag.as_slice()).unwrap();
    let modes = config.settings.skills.modes();
    ["api", "docs-api", "docs-guide", "pdf"].map(|name| modes.of(name).as_str()).into()
}

#[test]
fn a_project_can_only_make_skills_less_visible() {
    let own = "[skills.mode]\napi = \"off\"\ndocs-api = \"manual\"\ndocs-guide = \"name\"\n";
    assert_eq!(modes(own, "", None), ["off", "manual", "name", "auto"]);
    for hostile in [
        "[skills.mode]\n\"*\" = \"pinned\"\napi = \"pinned\"\ndocs-api = \"full\"\ndocs-guide = \"auto\"\npdf = \"pinned\"\n",
        "[skills.mode]\n\"*\" = \"full\"\n",
        "[skills]\nkits = [\"all\"]\n[skills.kit]\nall = [\"*\"]\n",
        "[skills]\nmanual = \"marked\"\nkits = []\n",
    ] {
        assert_eq!(modes(own, hostile, None), ["off", "manual", "name", "auto"], "{hostile}");
    }
    // It can hide.
    let narrow = "[skills.mode]\n\"docs-*\" = \"off\"\npdf = \"name\"\n";
    assert_eq!(modes(own, narrow, None), ["off", "off", "off", "name"]);
    let pinned = "[skills.mode]\npdf = \"pinned\"\n";
    assert_eq!(modes(pinned, "[skills.mode]\npdf = \"full\"\n", None)[3], "full");
}

#[test]
fn a_project_can_only_narrow_kits() {
    let own = "[skills]\nkits = [\"docs\"]\n[skills.kit]\ndocs = [\"docs-*\"]\n";
    assert_eq!(modes(own, "", None), ["off", "auto", "auto", "off"]);
    for hostile in [
        // It chooses another kit, defines the kit again, or chooses none.
        "[skills]\nkits = [\"all\"]\n[skills.kit]\nall = [\"*\"]\n",
        "[skills.kit]\ndocs = [\"*\"]\n",
        "[skills]\nkits = []\n",
        "[skills]\nkits = [\"unknown\"]\n",
    ] {
        assert_eq!(modes(own, hostile, None), ["off", "auto", "auto", "off"], "{hostile}");
    }
    let narrow = "[skills]\nkits = [\"one\"]\n[skills.kit]\none = [\"docs-api\", \"pdf\"]\n";
    assert_eq!(modes(own, narrow, None), ["off", "auto", "off", "off"]);
    assert_eq!(modes("", narrow, None), ["off", "auto", "off", "auto"]);
    // A person chooses instead of both files, but a kit of the person's stays narrowed.
    assert_eq!(modes(own, narrow, Some("")), ["auto", "auto", "auto", "auto"]);
    assert_eq!(modes(own, narrow, Some("one")), ["off", "auto", "off", "auto"]);
    assert_eq!(modes(own, "[skills.kit]\ndocs = [\"*-api\"]\n", Some("docs")), ["off", "auto", "off", "off"]);
}

#[test]
fn a_project_can_only_lower_the_budget() {
    let tokens = |user: &str, project: &str, window| {
        load(user, project, &[], &[]).unwrap().settings.skills.overview_tokens(window)
    };
    let budget = |value: &str| format!("[skills.overview]\nbudget = {value}\n");
    assert_eq!(tokens("", "", None), Some(4_000));
    assert_eq!(tokens("", "", Some(32_000)), Some(1_280));
    assert_eq!(tokens("skills.overview.budget = 9000", "", Some(32_000)), Some(9_000));
    assert_eq!(tokens(&budget("\"off\""), "", Some(32_000)), None);
    for raising in ["\"off\"", "100_000"] {
        assert_eq!(tokens("", &budget(raising), Some(32_000)), Some(1_280), "{raising}");
        assert_eq!(tokens(&budget("500"), &budget(raising), None), Some(500), "{raising}");
    }
    assert_eq!(tokens(&budget("\"off\""), &budget("300"), None), Some(300));
    assert_eq!(tokens(&budget("5000"), &budget("300"), None), Some(300));
}

#[test]
fn what_a_project_sets_without_effect_is_a_notice() {
    let project = "[skills]\nkits = [\"gone\"]\n[skills.overview]\nbudget = \"off\"\n[skills.mode]\npdf = \"pinned\"\napi = \"off\"\n";
    let config = load("[skills.kit]\ndocs = [\"docs-*\"]\n", project, &[], &[]).unwrap();
    assert_snapshot!(config.notices.join("\n"));
    // `prowess config show` has the values of both files.
    let config = load("skills.mode.pdf = \"name\"", "skills.mode.pdf = \"off\"", &[], &[]).unwrap();
    let rows = config.rows.iter().filter(|row| row.path == ["skills", "mode", "pdf"]);
    assert_eq!(rows.map(|row| row.value.clone()).collect::<Vec<_>>(), ["name", "off"]);
}

#[test]
fn mistakes_in_modes_and_kits_are_told() {
    let variable = |name: &str, value: &str| {
        load("", "", &[(name, value)], &[]).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let flag = Flag { key: "skills.kits", name: "--kit", text: "dcos".to_owned() };
    let kit = load("[skills.kit]\ndocs = [\"docs-*\"]\n", "", &[], &[flag]).err().unwrap().to_string();
    assert_snapshot!(
        [
            refusal("[skills.mode]\npdf = \"hidden\"\n"),
            refusal("[skills.mode]\npdf.docs = \"off\"\n"),
            refusal("[skills.mode]\n\"\" = \"off\"\n"),
            refusal("[skills]\nmode = \"off\"\n"),
            refusal("[skills]\noverview = 5\n"),
            refusal("[skills.overview]\nbudget = 5\n"),
            refusal("[skills.overview]\nbudget = \"2000\"\n"),
            refusal("[skills.overview]\nbuget = 500\n"),
            refusal("[skills]\noverview_budget = 500\n"),
            refusal("[skills.kit]\noff = [\"a\"]\n"),
            refusal("[skills.kit]\ndocs = \"docs-*\"\n"),
            refusal("[skills]\nkits = [\"docs\"]\n"),
            refusal("[skills]\nkits = [\"off\", \"docs\"]\n"),
            variable("PROWESS_SKILLS_OVERVIEW_BUDGET", "5"),
            variable("PROWESS_SKILLS_KITS", "docs"),
            kit,
        ]
        .join("\n")
    );
    assert_eq!(variable("PROWESS_SKILLS_OVERVIEW_BUDGET", "off"), "");
    let many: String = (0..1001).map(|number| format!("s{number} = \"off\"\n")).collect();
    assert!(refusal(&format!("[skills.mode]\n{many}")).ends_with("[skills.mode] can have 1000 keys at most"));
}
