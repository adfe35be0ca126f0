//! Calls that are finished in order, later than they are prepared: every owner of the state gets the same state.

use proptest::prelude::*;
use prowess_permission::NoAsker;
use prowess_skills::{
    Budgets, Dialect, Outcome, PreparedCall, SessionOptions, SkillService, SkillSession, SkillState,
    SkillView,
};
use serde_json::{Value, json};

use crate::library::Library;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const LIMIT: usize = 3;
const TOKENS: usize = 400;

#[derive(Clone, Debug)]
enum Step {
    /// Prepares a call: which tool, of which skill.
    Prepare(&'static str, usize),
    /// Finishes one of those that are prepared.
    Finish(prop::sample::Index),
    EndTurn,
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..NAMES.len();
    let tool = prop::sample::select(vec!["load", "load", "documents", "unload", "select", "add"]);
    prop_oneof![
        5 => (tool, name).prop_map(|(tool, at)| Step::Prepare(tool, at)),
        4 => any::<prop::sample::Index>().prop_map(Step::Finish),
        1 => Just(Step::EndTurn),
    ]
}

fn call(tool: &str, at: usize) -> (&'static str, Value) {
    let skill = NAMES[at];
    match tool {
        "load" => ("skill_load", json!({"skill": skill})),
        "documents" => ("skill_load", json!({"skill": skill, "include_all_docs": true})),
        "unload" => ("skill_unload", json!({"skill": skill})),
        "select" => ("skill_select_docs", json!({"skill": skill, "docs": ["x.md"]})),
        _ => ("skill_select_docs", json!({"skill": skill, "docs": ["y.md"], "mode": "add"})),
    }
}

async fn prepare(
    service: &SkillService,
    view: &SkillView,
    tool: &str,
    at: usize,
) -> Result<PreparedCall, String> {
    let (tool, arguments) = call(tool, at);
    match service.call(view, tool, arguments, &NoAsker).await {
        Outcome::Done(prepared) => Ok(prepared),
        Outcome::Refused(error) => Err(error.for_model()),
        Outcome::Asks(question) => panic!("nobody keeps this: {question:?}"),
    }
}

/// A session with its own state, and a program that has only the deltas.
struct Both {
    session: SkillSession,
    service: SkillService,
    state: SkillState,
    prepared: Vec<(PreparedCall, PreparedCall)>,
}

impl Both {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Prepare(tool, at) => {
                let held = prepare(self.session.service(), &self.session.view(), tool, at).await;
                let owned = prepare(&self.service, &self.service.engine().at(&self.state), tool, at).await;
                match (held, owned) {
                    (Ok(held), Ok(owned)) => self.prepared.push((held, owned)),
                    (held, owned) => assert_eq!(held.unwrap_err(), owned.unwrap_err()),
                }
            }
            Step::Finish(_) if self.prepared.is_empty() => {}
            Step::Finish(at) => {
                let (held, owned) = self.prepared.remove(at.index(self.prepared.len()));
                let before = self.session.state();
                let (held, owned) = (self.session.finish(held), owned.finish(&self.state));
                assert_eq!(held, owned);
                if held.is_error {
                    assert!(held.deltas.is_empty(), "an error changes nothing");
                    assert_eq!(self.session.state(), before);
                }
                self.state.replay(&owned.deltas).unwrap();
            }
            Step::EndTurn => {
                let deltas = self.service.engine().at(&self.state).end_turn();
                assert_eq!(self.session.change(SkillView::end_turn), deltas);
                self.state.replay(&deltas).unwrap();
            }
        }
        assert_eq!(*self.session.state(), self.state, "the changes say it all");
        assert!(self.state.loaded().len() <= LIMIT);
        assert!(self.state.tokens() <= TOKENS, "{} tokens", self.state.tokens());
        let shown = |view: SkillView| (view.overview().text, view.stale());
        assert_eq!(shown(self.session.view()), shown(self.service.engine().at(&self.state)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn whoever_owns_the_state_gets_the_same(steps in prop::collection::vec(step(), 1..60)) {
        let library = NAMES.iter().fold(Library::of(&NAMES), |library, name| {
            let library = library.file(&format!("{name}/x.md"), "word ".repeat(40));
            library.file(&format!("{name}/y.md"), "other ".repeat(40))
        });
        let mut options = SessionOptions::new(Dialect::Trpc);
        options.budgets = Budgets::new(LIMIT, Some(TOKENS));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut both = Both {
                session: library.builder().options(options.clone()).build().await,
                service: library.builder().options(options).build_service().await,
                state: SkillState::default(),
                prepared: Vec::new(),
            };
            for step in steps {
                both.step(step).await;
            }
            // What is shown in the end is the same, too.
            let shown = both.session.loaded_section().await;
            let section = both.service.engine().at(&both.state).loaded_section();
            let Outcome::Done(section) = section.drive(both.service.files(), &NoAsker).await else { panic!() };
            assert_eq!(shown, section);
        });
    }
}

/// A call before it has unloaded what it found loaded: it does not say that it is.
#[tokio::test]
async fn a_load_after_an_unload_of_the_same_answer_tells_the_truth() {
    let library = Library::of(&["a"]);
    let session = library.session().await;
    session.load("a", None).await.unwrap();
    let call = |tool| crate::library::prepared_call(&session, tool, json!({"skill_name": "a"}));
    let (unload, load) = (call("unload_skill").await, call("load_skill").await);
    assert!(!session.finish(unload).is_error);
    let reply = session.finish(load);
    assert!(reply.is_error && !reply.text.contains("already loaded"), "{}", reply.text);
    assert!(session.state().loaded().is_empty());
}
