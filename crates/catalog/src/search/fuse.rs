//! Joins rankings that were made in different ways.

use std::collections::HashMap;
use std::hash::Hash;

/// How much the first places count: with a small number, they count much more than the others. 60 is usual for lists with many
/// right items. A query means one skill or a few, so the first places count more here.
const FLATNESS: f64 = 10.0;

/// Joins several rankings of the same things into one, by their reciprocal ranks.
///
/// Each ranking has the best item first. An item gets 11 / (10 + its place) points from every ranking that has it. The scores of
/// the rankings need not be comparable, and a ranking may lack items. Items with equal points stay in the order in which they
/// first appear. Use this to add the ranking of an embedding model to that of [`CatalogView::search`](crate::CatalogView::search).
///
/// ```
/// use prowess_catalog::search::fuse;
///
/// let by_words = ["invoices", "taxes", "greet"];
/// let by_meaning = ["taxes", "payroll", "invoices"];
/// assert_eq!(fuse([by_words, by_meaning]), ["taxes", "invoices", "payroll", "greet"]);
/// ```
pub fn fuse<T: Clone + Eq + Hash>(rankings: impl IntoIterator<Item = impl IntoIterator<Item = T>>) -> Vec<T> {
    fuse_with_points(rankings).into_iter().map(|(item, _)| item).collect()
}

/// Like [`fuse`], with the points of each item. An item that is first in one ranking gets 1 point from it.
pub(super) fn fuse_with_points<T: Clone + Eq + Hash>(
    rankings: impl IntoIterator<Item = impl IntoIterator<Item = T>>,
) -> Vec<(T, f64)> {
    let mut items: Vec<(T, f64)> = Vec::new();
    let mut places: HashMap<T, (usize, usize)> = HashMap::new();
    for (number, ranking) in rankings.into_iter().enumerate() {
        for (place, item) in ranking.into_iter().enumerate() {
            let points = (FLATNESS + 1.0) / (FLATNESS + place as f64 + 1.0);
            match places.get_mut(&item) {
                // An item that a ranking has twice counts once.
                Some((_, last)) if *last == number => {}
                Some((at, last)) => {
                    *last = number;
                    items[*at].1 += points;
                }
                None => {
                    places.insert(item.clone(), (items.len(), number));
                    items.push((item, points));
                }
            }
        }
    }
    items.sort_by(|a, b| b.1.total_cmp(&a.1));
    items
}

#[cfg(test)]
mod tests {
    use super::fuse;

    #[test]
    fn one_ranking_stays_and_none_is_empty() {
        assert_eq!(fuse([vec!["a", "b", "c"]]), ["a", "b", "c"]);
        assert_eq!(fuse(Vec::<Vec<u8>>::new()), Vec::<u8>::new());
        assert_eq!(fuse([vec!["a", "b"], Vec::new()]), ["a", "b"]);
    }

    #[test]
    fn an_item_of_both_rankings_is_before_items_of_one() {
        assert_eq!(fuse([vec!["x", "a"], vec!["y", "a"]]), ["a", "x", "y"]);
    }

    #[test]
    fn repeating_an_item_gains_nothing() {
        assert_eq!(fuse([vec!["a", "b", "b", "b"], vec!["a"]]), ["a", "b"]);
        assert_eq!(fuse([vec!["b", "a", "a", "a"], vec!["b"]]), ["b", "a"]);
    }
}
