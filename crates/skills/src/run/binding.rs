//! The binding of a run: an approval covers only the same request with the same files.

use std::collections::BTreeMap;

use prowess_catalog::Digest;
use prowess_permission::Question;
use prowess_permission::action::{Channel, RunAction, RunActionInput};
use prowess_permission::question::RUN_BINDING;
use prowess_permission::real_path::real_path;
use prowess_workspace::stage::StageSource;
use prowess_workspace::{InputMode, RunInput, RunRequest};
use serde_json::{Value, json};

use super::given::Given;
use super::{RunSetup, SkillRunner};
use crate::error::SkillError;

/// A run that needs permission.
pub(super) struct PlannedRun<'a> {
    pub(super) request: &'a RunRequest,
    pub(super) channel: Option<Channel>,
    pub(super) sources: &'a BTreeMap<String, StageSource>,
    /// The locations of their manifests, by skill.
    pub(super) locations: &'a BTreeMap<String, String>,
    /// The digests of the servers' lists of files, by skill. Only listed files are staged.
    pub(super) published: &'a BTreeMap<String, Digest>,
    pub(super) runner: &'a SkillRunner,
    pub(super) given: &'a Given,
}

/// The digest of each skill's files.
pub(super) type Digests = BTreeMap<String, String>;

/// What an approval of a run is bound to.
pub(super) struct RunBinding {
    pub(super) files: Digests,
    pub(super) binding: String,
    /// The bindings that version 1 may have stored for the same run. Its JSON had the fields in the order of declaration or
    /// of their names, depending on the build. In version 1, no run was given files of a project or could write them.
    version_1: Vec<String>,
}

impl RunBinding {
    /// Binds the question. It also accepts replies to the same question of version 1, which had these details.
    pub(super) fn bind(&self, question: Question, details: &Value) -> Question {
        let bound = question.binding(self.binding.as_str());
        self.version_1.iter().fold(bound, |bound, earlier| bound.also_as_version_1(details, Some(earlier)))
    }
}

impl PlannedRun<'_> {
    /// The whole request, for the person, with real paths.
    pub(super) fn action_with_real_paths(&self) -> RunAction {
        let tree = &self.runner.setup.tree;
        let named = self.request.inputs.iter().map(|input| &input.from).chain(&self.request.cwd);
        let real = |path: &String| {
            let real = real_path(&tree.real(path)?).to_string_lossy().into_owned();
            (real != *path).then(|| (path.clone(), real))
        };
        RunAction { real_paths: named.filter_map(real).collect(), ..self.action() }
    }

    /// The whole request, as approvals are bound to it.
    fn action(&self) -> RunAction {
        let writable = self.runner.setup.writable_directories();
        let writable = writable.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        RunAction { writable, ..action(self.request, self.channel, self.given) }
    }

    /// The whole request in the form of version 1.
    pub(super) fn version_1_details(&self) -> Value {
        let mut all = serde_json::to_value(self.request).unwrap_or_default();
        if let Some(channel) = self.channel {
            all["talk"] = json!(channel);
        }
        all
    }

    /// What changes the meaning of the command, as additional subjects: variables, the directory, and typing.
    pub(super) fn additional_subjects(&self) -> impl Iterator<Item = String> {
        let variables = self.request.env.iter().map(|(name, value)| format!("env {name}={value}"));
        let directory = self.request.cwd.iter().map(|cwd| format!("cwd {cwd}"));
        let typed = self.channel.iter().map(|_| format!("type into {}", self.request.command));
        variables.chain(directory).chain(typed)
    }

    /// The binding: the files and locations of all skills, and the whole request. It fetches nothing from a server.
    pub(super) async fn binding(&self) -> Result<RunBinding, SkillError> {
        let mut files = Digests::new();
        let RunSetup { runner, workspace, .. } = &*self.runner.setup;
        for (name, source) in self.sources.iter().filter(|(name, _)| !self.published.contains_key(*name)) {
            let staged = runner.stage(workspace, name, source).await;
            let staged = staged.map_err(|error| SkillError::Run { name: name.clone(), error })?;
            files.insert(name.clone(), staged.digest.clone());
        }
        let mut declared = serde_json::to_string(self.request).unwrap_or_default();
        if let (Some(channel), Some(fields)) = (self.channel, declared.strip_suffix('}')) {
            declared = format!("{fields},\"talk\":{}}}", json!(channel));
        }
        let version_1 = [declared, sorted_json(&self.version_1_details())].map(|request| {
            let request = Digest::of(request.as_bytes());
            let binding = format!("{files:?} {request} {:?}", self.sources);
            if self.published.is_empty() { binding } else { format!("{binding} {:?}", self.published) }
        });
        let published = self.published.iter().map(|(name, digest)| (name.clone(), digest.to_string()));
        let digests = files.iter().map(|(name, digest)| (name.clone(), digest.clone())).chain(published);
        let action = self.action();
        let binding = binding(&action, self.locations, &digests.collect());
        let is_like_version_1 = action.given.is_empty() && action.writable.is_empty();
        let version_1 = if is_like_version_1 { version_1.into() } else { Vec::new() };
        Ok(RunBinding { binding, files, version_1 })
    }
}

/// JSON with the fields of all objects sorted by name.
fn sorted_json(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), sorted_json(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(sorted_json).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn action(request: &RunRequest, channel: Option<Channel>, given: &Given) -> RunAction {
    // All fields by name, so that a new field does not compile until it is handled here.
    let RunRequest {
        skill,
        command,
        cwd,
        env,
        stdin,
        inputs,
        output_files,
        outputs,
        network,
        timeout,
        save_as_artifacts,
        omit_inline_content,
        artifact_prefix,
    } = request.clone();
    let input = |RunInput { from, to, mode }| RunActionInput { from, to, is_link: mode == InputMode::Link };
    RunAction {
        skill,
        command,
        cwd,
        env,
        stdin,
        inputs: inputs.into_iter().map(input).collect(),
        output_files,
        // Not through a `Value`: other crates can change the order of its keys.
        outputs: outputs.map(|outputs| serde_json::to_string(&outputs).unwrap_or_default()),
        network,
        timeout,
        save_as_artifacts,
        omit_inline_content,
        artifact_prefix,
        channel,
        because_of: Vec::new(),
        given: given.paths.clone(),
        left_out: given.left_out.clone(),
        writable: Vec::new(),
        real_paths: BTreeMap::new(),
    }
}

/// The binding as text: a digest of the request, the locations of the skills and the digests of their files. Each part is
/// hashed after its length, so different parts never give the same bytes.
fn binding(action: &RunAction, locations: &BTreeMap<String, String>, digests: &Digests) -> String {
    let mut bytes = Vec::new();
    let mut put = |part: &str| {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
    };
    put("prowess run 2");
    put(&locations.len().to_string());
    for (name, location) in locations {
        let digest = digests.get(name).map_or("", String::as_str);
        [name, location, digest].into_iter().for_each(&mut put);
    }
    // Fields in the order of declaration, maps sorted by key: this form must never change.
    put(&serde_json::to_string(action).unwrap_or_default());
    format!("{RUN_BINDING}{}", Digest::of(&bytes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use prowess_workspace::RunOutputs;

    use super::*;

    /// Everything that goes into a binding.
    #[derive(Clone, Debug)]
    struct Parts {
        request: RunRequest,
        channel: Option<Channel>,
        locations: BTreeMap<String, String>,
        digests: Digests,
        given: [Vec<String>; 2],
    }

    impl Parts {
        fn binding(&self) -> String {
            let [paths, left_out] = self.given.clone();
            let given = Given { paths, left_out, ..Given::default() };
            binding(&action(&self.request, self.channel, &given), &self.locations, &self.digests)
        }
    }

    prop_compose! {
        fn request()(
            [skill, command] in [".{0,6}", ".{0,12}"],
            [cwd, stdin, artifact_prefix] in [(); 3].map(|()| prop::option::of(".{0,4}")),
            env in btree_map(".{0,3}", ".{0,3}", 0..3),
            inputs in vec((".{0,4}", prop::option::of(".{0,4}"), any::<bool>()), 0..3),
            [output_files, network] in [(); 2].map(|()| vec(".{0,4}", 0..3)),
            globs in prop::option::of(vec(".{0,4}", 0..3)),
            timeout in prop::option::of(any::<u64>()),
            [save_as_artifacts, omit_inline_content] in [any::<bool>(), any::<bool>()],
        ) -> RunRequest {
            let mode = |is_link| if is_link { InputMode::Link } else { InputMode::Copy };
            let input = |(from, to, is_link)| RunInput { from, to, mode: mode(is_link) };
            let inputs = inputs.into_iter().map(input).collect();
            let outputs = globs.map(|globs| RunOutputs { globs, ..RunOutputs::default() });
            RunRequest {
                skill, command, cwd, env, stdin, inputs, output_files, outputs, network, timeout,
                save_as_artifacts, omit_inline_content, artifact_prefix,
            }
        }
    }

    prop_compose! {
        fn parts()(
            request in request(),
            channel in prop::sample::select(vec![None, Some(Channel::Pipe), Some(Channel::Terminal)]),
            skills in btree_map("[a-c]{1,2}", ("[/a-c]{0,3}", "[0-3]{0,2}"), 1..3),
            given in [vec("/[a-c]{0,2}", 0..3), vec("/[a-c]{0,2}", 0..3)],
        ) -> Parts {
            let locations = skills.iter().map(|(name, (location, _))| (name.clone(), location.clone())).collect();
            let digests = skills.into_iter().map(|(name, (_, digest))| (name, digest)).collect();
            Parts { request, channel, locations, digests, given }
        }
    }

    /// For every part, a copy in which only this part is changed.
    fn changed(parts: &Parts) -> Vec<Parts> {
        let requests: [fn(&mut RunRequest); 20] = [
            |request| request.skill.push('x'),
            |request| request.command.push(' '),
            |request| request.cwd = Some(request.cwd.take().map_or_else(String::new, |cwd| cwd + "x")),
            |request| drop(request.env.insert("NEW-NAME".into(), String::new())),
            |request| request.stdin = Some(request.stdin.take().map_or_else(String::new, |text| text + "x")),
            |request| request.inputs.push(RunInput::copy("x")),
            |request| request.inputs.push(RunInput { to: Some("y".into()), ..RunInput::copy("x") }),
            |request| request.inputs.push(RunInput { mode: InputMode::Link, ..RunInput::copy("x") }),
            |request| request.output_files.push("x".into()),
            |request| request.output_files.push(String::new()),
            |request| request.outputs.get_or_insert_default().globs.push("x".into()),
            |request| request.outputs.get_or_insert_default().max_files += 1,
            |request| request.outputs.get_or_insert_default().max_file_bytes += 1,
            |request| request.outputs.get_or_insert_default().name_template = Some("x".into()),
            |request| request.network.push("x".into()),
            |request| request.timeout = Some(request.timeout.map_or(0, |timeout| timeout.wrapping_add(1))),
            |request| request.save_as_artifacts ^= true,
            |request| request.omit_inline_content ^= true,
            |request| request.artifact_prefix.get_or_insert_default().push('x'),
            |request| request.command.insert(0, 'x'),
        ];
        let mut all = Vec::new();
        for change in requests {
            let mut other = parts.clone();
            change(&mut other.request);
            all.push(other);
        }
        for channel in [None, Some(Channel::Pipe), Some(Channel::Terminal)] {
            if channel != parts.channel {
                all.push(Parts { channel, ..parts.clone() });
            }
        }
        for name in parts.locations.keys() {
            let mut other = parts.clone();
            other.locations.entry(name.clone()).or_default().push('x');
            all.push(other);
            let mut other = parts.clone();
            other.digests.entry(name.clone()).or_default().push('x');
            all.push(other);
            // The end of a location is not the beginning of a digest.
            let mut other = parts.clone();
            if let Some(last) = other.locations.get_mut(name).and_then(String::pop) {
                other.digests.entry(name.clone()).or_default().insert(0, last);
                all.push(other);
            }
        }
        let mut other = parts.clone();
        other.locations.insert("another".into(), String::new());
        all.push(other);
        for list in 0..2 {
            let mut other = parts.clone();
            other.given[list].push("/another".into());
            all.push(other);
        }
        all
    }

    proptest! {
        #[test]
        fn a_binding_is_the_same_for_the_same_and_another_for_each_change(parts in parts()) {
            let same = parts.clone();
            prop_assert_eq!(parts.binding(), same.binding());
            // The same after storing and reading.
            let stored = serde_json::to_string(&parts.request).unwrap();
            let read = Parts { request: serde_json::from_str(&stored).unwrap(), ..parts.clone() };
            prop_assert_eq!(parts.binding(), read.binding());
            prop_assert!(parts.binding().starts_with(RUN_BINDING));
            let changed = changed(&parts);
            let bindings: BTreeSet<String> = changed.iter().map(Parts::binding).collect();
            prop_assert!(!bindings.contains(&parts.binding()));
            prop_assert_eq!(bindings.len(), changed.len(), "each change is its own");
        }
    }

    /// Stored approvals contain these bindings, so they must not change.
    #[test]
    fn bindings_stay_what_they_are() {
        let mut request = RunRequest::new("kit", "make");
        request.env.insert("A".into(), "b".into());
        request.outputs = Some(RunOutputs { globs: vec!["out/*".into()], ..RunOutputs::default() });
        let locations = BTreeMap::from([("kit".to_owned(), "/skills/kit/SKILL.md".to_owned())]);
        let digests = Digests::from([("kit".to_owned(), "sha256:00".to_owned())]);
        let parts = Parts { request, channel: None, locations, digests, given: Default::default() };
        let stored = "run 2 sha256:9f3ee126939d4fe187498b3a0d59f7b4e2cf7657b06be277fc436e631a36122c";
        assert_eq!(parts.binding(), stored);
    }
}
