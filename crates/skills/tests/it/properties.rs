//! After any sequence of operations, the state of a session is consistent.

use std::collections::BTreeSet;

use proptest::prelude::*;
use prowess_catalog::Frame;
use prowess_skills::delta::SelectMode;
use prowess_skills::documents::DocumentChoice;
use prowess_skills::options::Placement;
use prowess_skills::{
    Budgets, Dialect, Lifetime, SavedState, SkillDelta, SkillSession, SkillState, SkillView,
};

use crate::library::Library;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const LIMIT: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Load(usize, Option<&'static str>),
    Invoke(usize),
    Unload(usize),
    Select(usize, SelectMode, bool),
    /// The disk changes, and the session is told.
    Remove(usize),
    Write(usize, u8),
    Refresh,
    /// Compaction with this budget, keeping every other message.
    Compact(Option<usize>),
    EndTurn,
    ModelCall,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    let mode = prop_oneof![Just(SelectMode::Add), Just(SelectMode::Replace), Just(SelectMode::Clear)];
    prop_oneof![
        6 => (name.clone(), prop_oneof![Just(None), Just(Some("x y"))]).prop_map(|(at, args)| Step::Load(at, args)),
        2 => name.clone().prop_map(Step::Invoke),
        4 => name.clone().prop_map(Step::Unload),
        3 => (name.clone(), mode, any::<bool>()).prop_map(|(at, mode, all)| Step::Select(at, mode, all)),
        1 => name.clone().prop_map(Step::Remove),
        2 => (name, any::<u8>()).prop_map(|(at, version)| Step::Write(at, version)),
        2 => Just(Step::Refresh),
        2 => prop_oneof![Just(None), (0..400_usize).prop_map(Some)].prop_map(Step::Compact),
        1 => Just(Step::EndTurn),
        1 => Just(Step::ModelCall),
        1 => Just(Step::Restart),
    ]
}

fn write(library: &Library, name: &str, version: u8) {
    // Bodies and notes are the same for all skills of one version.
    let padding = "word ".repeat(usize::from(version));
    let text = format!(
        "---\nname: {name}\ndescription: Looks after {name}.\n---\nTake $ARGUMENTS. {version} {padding}\n"
    );
    library.write(&format!("{name}/SKILL.md"), text);
    library.write(&format!("{name}/notes.md"), format!("Notes {version}. {}\n", padding.repeat(2)));
    library.write(&format!("{name}/scripts/run.sh"), "true\n");
}

struct World {
    library: Library,
    session: SkillSession,
    /// Every change that operations returned, in order.
    deltas: Vec<SkillDelta>,
    /// What the model has read.
    messages: Vec<String>,
    dialect: Dialect,
    lifetime: Lifetime,
}

impl World {
    async fn start(dialect: Dialect, lifetime: Lifetime) -> Self {
        let library = Library::new();
        NAMES.iter().for_each(|name| write(&library, name, 0));
        let session = Self::session(&library, dialect, lifetime, None).await;
        Self { library, session, deltas: Vec::new(), messages: Vec::new(), dialect, lifetime }
    }

    async fn session(
        library: &Library,
        dialect: Dialect,
        lifetime: Lifetime,
        saved: Option<SavedState>,
    ) -> SkillSession {
        let mut options = prowess_skills::SessionOptions::new(dialect);
        options.budgets = Budgets::new(LIMIT, Some(1_000));
        options.lifetime = lifetime;
        let builder = library.builder().options(options);
        match saved {
            Some(saved) => builder.saved_state(saved).build().await,
            None => builder.build().await,
        }
    }

    async fn step(&mut self, step: Step) {
        let before = self.session.state();
        let outcome = match step {
            Step::Load(at, arguments) => Some(self.session.load(NAMES[at], arguments).await),
            Step::Invoke(at) => Some(self.session.invoke(&format!("/{} again", NAMES[at])).await),
            Step::Unload(at) => Some(self.session.unload(NAMES[at])),
            Step::Select(at, mode, all) => {
                let choice =
                    if all { DocumentChoice::All } else { DocumentChoice::Named(vec!["notes.md".into()]) };
                Some(self.session.select_documents(NAMES[at], mode, choice).await)
            }
            Step::Remove(at) => {
                let _ = std::fs::remove_dir_all(self.library.join(NAMES[at]));
                None
            }
            Step::Write(at, version) => {
                write(&self.library, NAMES[at], version);
                None
            }
            Step::Refresh => {
                self.session.refresh(&self.library.catalog()).await;
                None
            }
            Step::Compact(budget) => {
                self.compact(budget).await;
                None
            }
            Step::EndTurn => {
                self.deltas.extend(self.session.change(SkillView::end_turn));
                None
            }
            Step::ModelCall => {
                let section = self.session.loaded_section().await;
                self.deltas.extend(section.deltas);
                self.deltas.extend(self.session.change(SkillView::after_model_call));
                None
            }
            Step::Restart => {
                let saved = serde_json::to_string(&self.session.save()).unwrap();
                let saved = serde_json::from_str(&saved).unwrap();
                let restored = Self::session(&self.library, self.dialect, self.lifetime, Some(saved)).await;
                assert_eq!(restored.state(), before);
                self.session = restored;
                None
            }
        };
        match outcome {
            Some(Ok(answer)) => {
                self.messages.push(answer.text);
                self.deltas.extend(answer.deltas);
            }
            Some(Err(_)) => assert_eq!(self.session.state(), before, "an error changes nothing"),
            None => {}
        }
    }

    async fn compact(&mut self, budget: Option<usize>) {
        let mut at = 0;
        self.messages.retain(|_| {
            at += 1;
            at % 2 == 0
        });
        let kept: Vec<&str> = self.messages.iter().map(String::as_str).collect();
        let section = self.session.put_back(kept, budget).await;
        self.deltas.extend(section.deltas);
        for name in &section.dropped {
            assert!(section.text.contains(&format!("Skill '{name}' was unloaded")), "{}", section.text);
        }
        self.messages.push(section.text);
        self.check_context();
    }

    /// Everything that is loaded is in the messages, whole; unless the system message has it.
    fn check_context(&self) {
        if self.session.options().placement == Placement::SystemMessage {
            return;
        }
        let frames = self.messages.iter().flat_map(|message| Frame::find_all(message, &[7; 16]));
        let present: BTreeSet<String> = frames.map(|framed| framed.nonce).collect();
        let state = self.session.state();
        for skill in state.loaded() {
            assert!(present.contains(&skill.nonce), "the text of {} was lost", skill.name);
            for document in state.documents(&skill.name) {
                assert!(present.contains(&document.nonce), "{} of {} was lost", document.path, skill.name);
            }
        }
    }

    fn check(&self) {
        let state = self.session.state();
        let names: Vec<&str> = state.names().collect();
        let set: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(set.len(), names.len(), "nothing is loaded twice");
        assert!(names.len() <= LIMIT);
        assert!(state.tokens() <= 1_000, "{} tokens", state.tokens());
        assert!(state.all_resources().keys().all(|name| set.contains(name.as_str())));
        assert!(state.all_selections().keys().all(|name| set.contains(name.as_str())));
        let view = self.session.engine().catalog_view();
        let stale: BTreeSet<String> =
            self.session.view().stale().into_iter().map(|stale| stale.name).collect();
        assert!(names.iter().all(|name| view.get(name).is_some() || stale.contains(*name)));
        let mut replayed = SkillState::default();
        replayed.replay(&self.deltas).unwrap();
        assert_eq!(replayed, *state, "replaying the changes gives the state");
        let overview = self.session.view().overview().text;
        let marked = overview.matches("** [Loaded]:").count();
        assert_eq!(marked, names.iter().filter(|name| view.get(name).is_some()).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_keeps_the_invariants(
        steps in prop::collection::vec(step(), 1..40),
        dialect in prop_oneof![Just(Dialect::DeepAgents), Just(Dialect::Trpc), Just(Dialect::OpenCode)],
        lifetime in prop_oneof![3 => Just(Lifetime::Session), 1 => Just(Lifetime::Turn), 1 => Just(Lifetime::Once)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::start(dialect, lifetime).await;
            for step in steps {
                world.step(step).await;
                world.check();
            }
        });
    }
}
