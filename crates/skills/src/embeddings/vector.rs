//! A vector of an embedding model.

use std::fmt;

/// The most numbers of a vector.
pub const MAX_DIMENSIONS: usize = 4_096;

/// A vector that an embedding model made from a text.
///
/// Each number takes one byte. That changes similarities by less than a hundredth, and 5,000 vectors of 1,536 numbers take 8 MB
/// instead of 31 MB.
///
/// ```
/// use prowess_skills::embeddings::Vector;
///
/// let east = Vector::new(&[1.0, 0.0]).ok_or("not a vector")?;
/// let north_east = Vector::new(&[3.0, 3.0]).ok_or("not a vector")?;
/// assert!((east.similarity(&north_east).unwrap_or_default() - 0.707).abs() < 0.01);
/// assert!(Vector::new(&[f32::NAN, 1.0]).is_none());
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Vector {
    numbers: Box<[i8]>,
}

impl Vector {
    /// The vector with these numbers. `None` if there are none or more than [`MAX_DIMENSIONS`], if one is not finite, or if all
    /// are 0.
    pub fn new(numbers: &[f32]) -> Option<Self> {
        let largest = numbers.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
        let is_vector = (1..=MAX_DIMENSIONS).contains(&numbers.len())
            && numbers.iter().all(|number| number.is_finite())
            && largest > f32::MIN_POSITIVE;
        #[expect(clippy::cast_possible_truncation, reason = "the quotient is between -1 and 1")]
        let byte = |number: &f32| (number / largest * f32::from(i8::MAX)).round() as i8;
        is_vector.then(|| Self { numbers: numbers.iter().map(byte).collect() })
    }

    /// The stored bytes of a vector.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let numbers: Box<[i8]> = bytes.iter().map(|byte| byte.cast_signed()).collect();
        numbers.iter().any(|number| *number != 0).then_some(Self { numbers })
    }

    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.numbers.iter().map(|number| number.cast_unsigned())
    }

    /// How many numbers it has.
    pub fn dimensions(&self) -> usize {
        self.numbers.len()
    }

    /// The cosine of the angle between both. `None` if they have different lengths.
    pub fn similarity(&self, other: &Self) -> Option<f32> {
        let dot = |a: &Self, b: &Self| -> i64 {
            // A product has at most 14 bits, so 4,096 of them fit.
            a.numbers.iter().zip(&b.numbers).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>().into()
        };
        let lengths = (dot(self, self) as f32).sqrt() * (dot(other, other) as f32).sqrt();
        (self.dimensions() == other.dimensions()).then(|| dot(self, other) as f32 / lengths)
    }
}

impl fmt::Debug for Vector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vector of {}", self.dimensions())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_that_are_no_vector_are_refused() {
        let long = vec![1.0; MAX_DIMENSIONS + 1];
        let refused: [&[f32]; 6] =
            [&[], &[0.0, 0.0], &[f32::NAN], &[1.0, f32::INFINITY], &[1.0, f32::NEG_INFINITY], &long];
        for numbers in refused {
            assert!(Vector::new(numbers).is_none(), "{:?}", numbers.first());
        }
        let longest = Vector::new(&long[1..]).unwrap();
        assert!((longest.similarity(&longest).unwrap() - 1.0).abs() < 1e-3);
        assert!(Vector::new(&[1e-38, -3e38]).is_some());
        assert_eq!(longest.similarity(&Vector::new(&[1.0]).unwrap()), None);
    }

    proptest! {
        #[test]
        fn a_byte_for_each_number_is_enough(pairs in prop::collection::vec((-1.0_f32..1.0, -1.0_f32..1.0), 32..200)) {
            let (a, b): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
            let exact = dot(&a, &b) / (dot(&a, &a).sqrt() * dot(&b, &b).sqrt());
            let (Some(a), Some(b)) = (Vector::new(&a), Vector::new(&b)) else { return Ok(()) };
            prop_assert!((a.similarity(&b).unwrap() - exact).abs() < 0.01);
        }
    }
}
