//! Streamable HTTP.

mod clients;
mod hostile;
mod running;
mod served;
mod wire;
