//! Models that respond at once.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::StreamExt as _;
use futures_util::stream;
use prowess_agent::model::{Finish, ModelStream};
use prowess_agent::{Model, ModelDelta, ModelError, ModelRequest};

use crate::task::cpu_so_far;

/// A model that calls the tool this many times and then ends the turn.
#[derive(Debug)]
pub(super) struct Adds(usize);

impl Adds {
    pub(super) fn times(steps: usize) -> Arc<dyn Model> {
        Arc::new(Self(steps))
    }
}

#[async_trait]
impl Model for Adds {
    fn name(&self) -> &str {
        "adds"
    }

    async fn call(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        // What the user said, then a call and its result for each step.
        let step = request.messages.len() / 2;
        if step < self.0 {
            let arguments = format!("{{\"a\": {step}, \"b\": 1}}");
            Ok(said(vec![call(0, step, "add"), ModelDelta::Arguments { index: 0, piece: arguments }]))
        } else {
            Ok(said(vec![ModelDelta::Text("done".to_owned())]))
        }
    }
}

/// A model with a prepared response, which records the CPU time of the process at each request.
#[derive(Debug, Default)]
pub(super) struct Notes {
    calls: Vec<(&'static str, String)>,
    asked: Mutex<Vec<f64>>,
}

impl Notes {
    /// A model that makes all these calls in its first response.
    pub(super) fn calling(calls: Vec<(&'static str, String)>) -> Arc<Self> {
        Arc::new(Self { calls, ..Self::default() })
    }

    /// The times of the requests, in milliseconds of CPU time.
    pub(super) fn asked(&self) -> Vec<f64> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Model for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    async fn call(&self, _: ModelRequest) -> Result<ModelStream, ModelError> {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.push(cpu_so_far());
        if asked.len() > 1 || self.calls.is_empty() {
            return Ok(said(vec![ModelDelta::Text("So far so good.".to_owned())]));
        }
        let calls = self.calls.iter().enumerate().flat_map(|(index, (tool, arguments))| {
            [call(index, index, tool), ModelDelta::Arguments { index, piece: arguments.clone() }]
        });
        Ok(said(calls.collect()))
    }
}

pub(crate) fn call(index: usize, number: usize, tool: &str) -> ModelDelta {
    ModelDelta::ToolCall { index, id: format!("call-{number}"), name: tool.to_owned() }
}

pub(crate) fn said(mut deltas: Vec<ModelDelta>) -> ModelStream {
    deltas.push(ModelDelta::Finish(Finish::Stop));
    stream::iter(deltas.into_iter().map(Ok)).boxed()
}
