//! Search: what it finds, what it never does.

use std::fmt::Write as _;

use proptest::prelude::*;
use prowess_catalog::search::{MAX_VOCABULARY, MAX_WORDS};
use prowess_catalog::{Catalog, CatalogView, Root, ScanOptions};

use crate::tree::{Tree, manifest, yaml_text};

/// Made-up skills.
const SKILLS: [(&str, &str); 16] = [
    ("bill-writer", "Writes invoices for customers. Use when somebody has to pay."),
    ("boat-log", "Keeps the log of a boat: weather, course and crew."),
    ("cloud-janitor", "Deletes unused Kubernetes clusters and Terraform state."),
    ("diagram-maker", "Draws a diagram of a system from its source."),
    ("event-hub-reader", "Reads events with EventHubConsumerClient, and saves checkpoints."),
    ("file-finder", "Finds files by name."),
    ("github-helper", "Opens pull requests on GitHub and answers their reviewers."),
    ("knot-teacher", "Explains knots for sailors, step by step."),
    ("mail-sorter", "Sorts email into folders. Use for a full inbox."),
    ("pdf-reader", "Extracts text from PDF files, also from scanned pages."),
    ("photo-album", "Makes an album out of photos."),
    ("sail-repair", "Mends sails. Use when a sail is torn."),
    ("slide-maker", "Makes a presentation in PowerPoint out of notes."),
    ("tide-tables", "Looks up high and low water in tide tables."),
    ("translator", "Translates texts between languages."),
    ("xin-jiang", "处理中文发票和合同。 Reads Chinese contracts."),
];

fn tree() -> Tree {
    SKILLS.iter().fold(Tree::new(), |tree, (name, description)| {
        tree.file(&format!("{name}/SKILL.md"), manifest(name, description))
    })
}

fn found(view: &CatalogView, query: &str) -> Vec<String> {
    view.search(query).iter().map(|hit| hit.entry.skill.name.to_string()).collect()
}

/// The first three for each query. Read the changes of this snapshot: they are changes of the ranking.
#[test]
fn rankings_of_made_up_skills() {
    let tree = tree();
    let view = tree.discover().view_all();
    let queries = [
        "pdf reader",
        "pull the words out of a scan",
        "invoces",
        "kuberentes",
        "make a picture album",
        "pr",
        "EventHub",
        "event hub consumer client",
        "powerpoint",
        "the and of",
        "Rechnungen schreiben",
        "ein Diagramm der Quellen",
        "traducir un texto",
        "une présentation pour le client",
        "合同",
        "把发票发给客户",
        "transl",
        "sailing boats with torn sails",
        "xylophone",
    ];
    let mut table = String::new();
    for query in queries {
        let names = found(&view, query);
        writeln!(table, "{query}: {}", names[..names.len().min(3)].join(", ")).unwrap();
    }
    insta::assert_snapshot!(table);
}

#[test]
fn an_exact_name_is_first_in_any_case_and_with_blanks() {
    let tree =
        tree().file("files/SKILL.md", manifest("files", "Reads files. File files finds names of a file."));
    let view = tree.discover().view_all();
    for query in ["file-finder", "File Finder", " FILE  finder "] {
        assert_eq!(found(&view, query)[0], "file-finder", "{query}");
    }
}

/// A program that suggests skills for a message asks this, so that small talk suggests nothing.
#[test]
fn coverage_tells_a_task_from_small_talk() {
    let tree = tree();
    let view = tree.discover().view_all();
    let coverage = |query: &str| view.search(query).first().map_or(0.0, |hit| hit.coverage);
    for task in [
        "sail-repair",
        "mend a torn sail",
        "please extract the text from my pdf files",
        "kuberentes clusters",
    ] {
        assert!(coverage(task) > 0.6, "{task}: {}", coverage(task));
    }
    for talk in [
        "thanks!",
        "go on",
        "yes, please do",
        "use it for me",
        "danke dir",
        "Hmm, wonderful weather yesterday",
    ] {
        assert!(coverage(talk) < 0.4, "{talk}: {}", coverage(talk));
    }
    assert_eq!(coverage("use the files of this"), coverage("files"), "function words do not count");
    let long = "torn sails, and then the neighbour's grandmother went shopping for cucumbers and chocolate";
    assert!(coverage(long) < coverage("torn sails"), "words that no skill has count");
}

#[test]
fn headings_file_names_and_metadata_are_found() {
    let text = "---\nname: plain\ndescription: Does things.\nmetadata:\n  topic: gardening\n---\n# Growing tomatoes\n";
    let tree = tree()
        .file("plain/SKILL.md", text)
        .file("plain/scripts/prune_roses.py", "")
        .file("plain/references/CompostHeap.md", "")
        .file("plain/other/orchids.md", "");
    let view = tree.discover().view_all();
    for query in ["gardening", "tomato", "prune the roses", "compost", "CompostHeap"] {
        assert_eq!(found(&view, query), ["plain"], "{query}");
    }
    assert_eq!(found(&view, "orchids"), Vec::<String>::new(), "only the usual directories are listed");
}

#[test]
fn a_word_of_the_description_counts_more_than_the_same_word_in_a_heading() {
    let head = "---\nname: b-head\ndescription: Does many things.\n---\n# Tomatoes\n";
    let tree = Tree::new()
        .file("a-head/SKILL.md", head.replace("b-head", "a-head"))
        .file("b-head/SKILL.md", head)
        .file("c-text/SKILL.md", manifest("c-text", "Does many tomatoes."));
    assert_eq!(found(&tree.discover().view_all(), "tomatoes"), ["c-text", "a-head", "b-head"]);
}

#[test]
fn stuffing_a_description_with_words_gains_nothing() {
    let words: String = SKILLS.iter().map(|(_, description)| format!("{description} ")).collect();
    let again = "invoice ".repeat(120);
    let tree = tree()
        .file("all-words/SKILL.md", manifest("all-words", words.trim()))
        .file("one-word/SKILL.md", manifest("one-word", again.trim()));
    let view = tree.discover().view_all();
    for (name, description) in SKILLS {
        let names = found(&view, description);
        assert_eq!(names[0], name, "{description}: {names:?}");
    }
    assert_eq!(found(&view, "invoices for a customer")[0], "bill-writer");
}

#[test]
fn a_view_is_searched_as_if_the_catalog_had_nothing_else() {
    let tree = tree();
    let catalog = tree.discover();
    let all = catalog.view_all();
    let odd = |name: &str| name.len() % 2 == 1;
    let view = catalog.view(|entry| odd(entry.skill.name.as_str()));
    let filtered = all.filtered(|entry| odd(entry.skill.name.as_str()));
    let alone = SKILLS.iter().filter(|(name, _)| odd(name)).fold(Tree::new(), |tree, (name, description)| {
        tree.file(&format!("{name}/SKILL.md"), manifest(name, description))
    });
    let alone = alone.discover().view_all();
    for (_, query) in SKILLS {
        let scored = |view: &CatalogView| -> Vec<(String, f64)> {
            view.search(query).iter().map(|hit| (hit.entry.skill.name.to_string(), hit.score)).collect()
        };
        assert_eq!(scored(&view), scored(&alone), "{query}");
        assert_eq!(scored(&filtered), scored(&alone), "{query}");
    }
    assert!(catalog.view(|_| false).search("sail repair").is_empty());
}

#[test]
fn an_untrusted_skill_is_found_by_people_only() {
    let tree = tree();
    let mut root = Root::explicit(tree.path());
    root.trust = prowess_catalog::Trust::Untrusted;
    let catalog = Catalog::discover(&[root], &ScanOptions::default());
    assert_eq!(found(&catalog.view_for_people(), "torn sails")[0], "sail-repair");
    assert!(catalog.view_all().search("torn sails").is_empty());
}

#[test]
fn a_stored_index_is_used_only_for_the_same_texts() {
    let tree = tree();
    let stored = tree.discover().index().to_bytes();
    let again = tree.discover();
    assert!(again.use_index(&stored) && !again.use_index(&stored), "only once");
    assert_eq!(found(&again.view_all(), "torn sails"), found(&tree.discover().view_all(), "torn sails"));

    for end in [0, 1, 40, stored.len() / 2, stored.len() - 1] {
        assert!(!tree.discover().use_index(&stored[..end]));
    }
    let mut damaged = stored.clone();
    damaged[100] ^= 1;
    assert!(!tree.discover().use_index(&damaged));
    let changed = tree.file("file-finder/SKILL.md", manifest("file-finder", "Finds files by date."));
    assert!(!changed.discover().use_index(&stored));
}

#[test]
fn hostile_descriptions_are_bounded() {
    let mut distinct = String::new();
    for number in 0..200_000 {
        write!(distinct, "w{number:x} ").unwrap();
    }
    let long_word = "x".repeat(60_000);
    let cjk = "潮汐日志".repeat(5_000);
    let camel = "AbCd".repeat(15_000);
    let marks = format!("e{}", "\u{301}".repeat(20_000));
    let texts = [&distinct[..60_000], &long_word, &cjk, &camel, &marks, "'''''''", "\u{FDFA}\u{FDFA}"];
    let tree = texts.iter().enumerate().fold(Tree::new(), |tree, (number, text)| {
        let name = format!("hostile-{number}");
        tree.file(&format!("{name}/SKILL.md"), manifest(&name, text))
    });
    let catalog = tree.discover();
    assert!(catalog.index().words() <= MAX_WORDS * texts.len());
    let view = catalog.view_all();
    for query in texts.into_iter().chain([distinct.as_str(), "hostile"]) {
        assert!(view.search(query).len() <= view.entries().len());
    }
    assert_eq!(view.search("hostile").len(), view.entries().len());
}

#[test]
fn many_strange_words_are_bounded_and_hide_no_name() {
    let mut tree = Tree::in_memory();
    for skill in 0..500 {
        let words: Vec<String> =
            (0..MAX_WORDS).map(|word| format!("q{:x}z", skill * MAX_WORDS + word)).collect();
        let name = format!("a-{skill}");
        tree = tree.file(&format!("{name}/SKILL.md"), manifest(&name, &words.join(" ")));
    }
    let tree = tree.file("zebra-crossing/SKILL.md", manifest("zebra-crossing", "Words that come too late."));
    let catalog = tree.discover();
    let most = MAX_VOCABULARY + 503;
    assert!((MAX_VOCABULARY..=most).contains(&catalog.index().words()), "{}", catalog.index().words());
    assert_eq!(found(&catalog.view_all(), "crossing of zebras")[0], "zebra-crossing");
}

fn catalog_of(skills: &[(String, String)]) -> (Tree, Catalog) {
    let tree = skills.iter().enumerate().fold(Tree::new(), |tree, (number, (name, description))| {
        let name = format!("{name}-{number}");
        tree.file(&format!("{name}/SKILL.md"), manifest(&name, &yaml_text(description)))
    });
    let catalog = tree.discover();
    (tree, catalog)
}

fn skills() -> impl Strategy<Value = Vec<(String, String)>> {
    let words = "(sail|sails|boat|invoice|GitHub|Diagramm|数据库|[a-z]{1,7}|[^\\x00-\\x1f\"\\\\]{0,6})";
    let text = prop::collection::vec(words, 1..10).prop_map(|words| format!("a {}", words.join(" ")));
    prop::collection::vec(("[a-z]{1,5}", text), 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn search_never_panics_and_stays_in_its_view(skills in skills(), query in ".{0,60}", bits in any::<u16>()) {
        let (_tree, catalog) = catalog_of(&skills);
        let chosen: Vec<String> = catalog.entries().iter().enumerate()
            .filter(|(at, _)| bits >> (at % 16) & 1 == 1)
            .map(|(_, entry)| entry.skill.name.to_string()).collect();
        let view = catalog.view(|entry| chosen.iter().any(|name| *name == entry.skill.name.as_str()));
        let descriptions = skills.iter().map(|(_, description)| description.as_str());
        for query in descriptions.chain([query.as_str()]) {
            let hits = view.search(query);
            prop_assert!(hits.iter().all(|hit| view.get(hit.entry.skill.name.as_str()).is_some()));
            prop_assert!(hits.iter().all(|hit| hit.score.is_finite() && hit.score > 0.0));
            prop_assert!(hits.iter().all(|hit| (0.0..=1.0).contains(&hit.coverage)));
            prop_assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
        }
    }

    #[test]
    fn the_index_of_a_refreshed_catalog_is_that_of_a_new_one(before in skills(), after in skills()) {
        let (tree, catalog) = catalog_of(&before);
        catalog.index();
        for entry in catalog.entries().iter().step_by(2) {
            std::fs::remove_dir_all(tree.path().join(entry.skill.name.as_str())).unwrap();
        }
        let tree = after.iter().fold(tree, |tree, (name, description)| {
            tree.file(&format!("{name}/SKILL.md"), manifest(name, &yaml_text(description)))
        });
        let roots = [Root::explicit(tree.path())];
        let refreshed = catalog.refreshed(&roots, &ScanOptions::default());
        let new = tree.discover();
        prop_assert_eq!(refreshed.index(), new.index());
        prop_assert!(tree.discover().use_index(&refreshed.index().to_bytes()));
    }
}
