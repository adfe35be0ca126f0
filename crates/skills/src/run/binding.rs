//! What an approval of a run is bound to.

use std::collections::BTreeMap;

use prowess_catalog::Digest;
use prowess_permission::Question;
use prowess_permission::action::{Channel, RunAction, RunActionInput};
use prowess_permission::question::RUN_BINDING;
use prowess_workspace::stage::StageSource;
use prowess_workspace::{InputMode, RunInput, RunRequest};
use serde_json::{Value, json};

use super::{RunSetup, SkillRunner};
use crate::error::SkillError;

/// What the gates of a run are asked about.
pub(super) struct Asked<'a> {
    pub(super) request: &'a RunRequest,
    pub(super) channel: Option<Channel>,
    pub(super) sources: &'a BTreeMap<String, StageSource>,
    /// Where the documents of these skills are.
    pub(super) places: &'a BTreeMap<String, String>,
    /// What servers say of all files of their skills, which is what is staged or nothing.
    pub(super) published: &'a BTreeMap<String, Digest>,
    pub(super) runs: &'a SkillRunner,
}

/// Skills with the digests of their files.
pub(super) type Digests = BTreeMap<String, String>;

/// What an approval is bound to.
pub(super) struct Bound {
    pub(super) files: Digests,
    pub(super) binding: String,
    /// The same as version 1 may have written it, for what it asked and stored: its JSON had the fields as they were
    /// declared or by their names, as the program happened to be built.
    formerly: [String; 2],
}

impl Bound {
    /// The question bound to this, which is the one that version 1 asked with these details.
    pub(super) fn bind(&self, question: Question, details: &Value) -> Question {
        let bound = question.bound_to(self.binding.as_str());
        self.formerly.iter().fold(bound, |bound, formerly| bound.also_as_version_1(details, Some(formerly)))
    }
}

impl Asked<'_> {
    /// Everything that was asked for, for the person.
    pub(super) fn action(&self) -> RunAction {
        action(self.request, self.channel)
    }

    /// Everything that was asked for, as version 1 put it.
    pub(super) fn all(&self) -> Value {
        let mut all = serde_json::to_value(self.request).unwrap_or_default();
        if let Some(channel) = self.channel {
            all["talk"] = json!(channel);
        }
        all
    }

    /// What gives a command another meaning: its variables, its directory, and that it is typed into.
    pub(super) fn surroundings(&self) -> impl Iterator<Item = String> {
        let variables = self.request.env.iter().map(|(name, value)| format!("env {name}={value}"));
        let directory = self.request.cwd.iter().map(|cwd| format!("cwd {cwd}"));
        let typed = self.channel.iter().map(|_| format!("type into {}", self.request.command));
        variables.chain(directory).chain(typed)
    }

    /// What an approval is bound to: the digests of all skills' files and where they are, and everything that was asked
    /// for. Nothing is fetched from a server to ask.
    pub(super) async fn bound(&self) -> Result<Bound, SkillError> {
        let mut files = Digests::new();
        let RunSetup { runner, workspace, .. } = &*self.runs.runs;
        for (name, source) in self.sources.iter().filter(|(name, _)| !self.published.contains_key(*name)) {
            let staged = runner.stage(workspace, name, source).await;
            let staged = staged.map_err(|error| SkillError::Run { name: name.clone(), error })?;
            files.insert(name.clone(), staged.digest.clone());
        }
        let mut declared = serde_json::to_string(self.request).unwrap_or_default();
        if let (Some(channel), Some(fields)) = (self.channel, declared.strip_suffix('}')) {
            declared = format!("{fields},\"talk\":{}}}", json!(channel));
        }
        let formerly = [declared, by_names(&self.all())].map(|all| {
            let all = Digest::of(all.as_bytes());
            let formerly = format!("{files:?} {all} {:?}", self.sources);
            if self.published.is_empty() { formerly } else { format!("{formerly} {:?}", self.published) }
        });
        let published = self.published.iter().map(|(name, digest)| (name.clone(), digest.to_string()));
        let digests = files.iter().map(|(name, digest)| (name.clone(), digest.clone())).chain(published);
        Ok(Bound { binding: binding(&self.action(), self.places, &digests.collect()), files, formerly })
    }
}

/// JSON with the fields of all objects by their names, however this program keeps them.
fn by_names(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            let fields: Vec<String> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", json!(name), by_names(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(by_names).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

fn action(request: &RunRequest, channel: Option<Channel>) -> RunAction {
    // All fields by name: one that is added has to be thought of here.
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
        // Not by way of a `Value`: other crates decide about the order of its keys.
        outputs: outputs.map(|outputs| serde_json::to_string(&outputs).unwrap_or_default()),
        network,
        timeout,
        save_as_artifacts,
        omit_inline_content,
        artifact_prefix,
        channel,
        because_of: Vec::new(),
    }
}

/// One text for one meaning: what is to be done, where the skills are, and the digests of their files. Each part has its
/// length before it, so that no two run together.
fn binding(action: &RunAction, places: &BTreeMap<String, String>, digests: &Digests) -> String {
    let mut bytes = Vec::new();
    let mut put = |part: &str| {
        bytes.extend((part.len() as u64).to_le_bytes());
        bytes.extend(part.as_bytes());
    };
    put("prowess run 2");
    put(&places.len().to_string());
    for (name, place) in places {
        let digest = digests.get(name).map_or("", String::as_str);
        [name, place, digest].into_iter().for_each(&mut put);
    }
    // Fields in their order and maps by their keys: the same for ever.
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

    /// Everything that a binding is made of.
    #[derive(Clone, Debug)]
    struct Parts {
        request: RunRequest,
        channel: Option<Channel>,
        places: BTreeMap<String, String>,
        digests: Digests,
    }

    impl Parts {
        fn binding(&self) -> String {
            binding(&action(&self.request, self.channel), &self.places, &self.digests)
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
        ) -> Parts {
            let places = skills.iter().map(|(name, (place, _))| (name.clone(), place.clone())).collect();
            let digests = skills.into_iter().map(|(name, (_, digest))| (name, digest)).collect();
            Parts { request, channel, places, digests }
        }
    }

    /// The same parts with one of them changed, for every part.
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
        for name in parts.places.keys() {
            let mut other = parts.clone();
            other.places.entry(name.clone()).or_default().push('x');
            all.push(other);
            let mut other = parts.clone();
            other.digests.entry(name.clone()).or_default().push('x');
            all.push(other);
            // The end of a place is not the beginning of a digest.
            let mut other = parts.clone();
            if let Some(last) = other.places.get_mut(name).and_then(String::pop) {
                other.digests.entry(name.clone()).or_default().insert(0, last);
                all.push(other);
            }
        }
        let mut other = parts.clone();
        other.places.insert("another".into(), String::new());
        all.push(other);
        all
    }

    proptest! {
        #[test]
        fn a_binding_is_the_same_for_the_same_and_another_for_each_change(parts in parts()) {
            let same = parts.clone();
            prop_assert_eq!(parts.binding(), same.binding());
            // Also after it was stored and read again.
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

    /// Approvals are stored with these: what was approved once stays approved.
    #[test]
    fn bindings_stay_what_they_are() {
        let mut request = RunRequest::new("kit", "make");
        request.env.insert("A".into(), "b".into());
        request.outputs = Some(RunOutputs { globs: vec!["out/*".into()], ..RunOutputs::default() });
        let places = BTreeMap::from([("kit".to_owned(), "/skills/kit/SKILL.md".to_owned())]);
        let digests = Digests::from([("kit".to_owned(), "sha256:00".to_owned())]);
        let parts = Parts { request, channel: None, places, digests };
        let stored = "run 2 sha256:9f3ee126939d4fe187498b3a0d59f7b4e2cf7657b06be277fc436e631a36122c";
        assert_eq!(parts.binding(), stored);
    }
}
