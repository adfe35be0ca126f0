//! Parameters of a request: the longest response and the temperature.

use prowess_agent::ModelRequest;
use prowess_agent::model::ModelLimits;

/// The longest response: what the request asks for, within the model's limit.
pub(crate) fn max_output(request: &ModelRequest, limits: ModelLimits) -> Option<u64> {
    request.max_output.into_iter().chain(limits.output).min()
}

/// A temperature as the number that was written: 0.7, and not 0.699999988.
pub(crate) fn decimal(temperature: f32) -> Option<f64> {
    temperature.to_string().parse().ok().filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temperatures_stay_as_written() {
        assert_eq!(decimal(0.7), Some(0.7));
        assert_eq!(decimal(f32::NAN), None);
    }
}
