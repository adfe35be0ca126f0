//! Behaviours of `read_many`, `upload` and `download`.

use bytes::Bytes;

use super::Subject;
use super::subject::refused;
use crate::VirtualPath;

/// `read_many` returns the answers in order. One failure does not affect the others.
pub async fn read_many_answers_in_order_with_an_error_each(subject: &Subject) {
    subject.put("b", "b").await;
    subject.put("tree/branch/a", "a").await;
    let paths = ["nothing", "tree/branch/a", "tree", "b"].map(|relative| subject.at(relative));
    let mut answers = subject.backend().read_many(&paths, 100).await.into_iter();
    let mut next = || answers.next().expect("there is an answer for each");
    let error = refused(next(), "not_found");
    assert_eq!(error.path(), Some(&paths[0]));
    let read = next().expect("it is there");
    assert_eq!((&read.path, &read.bytes[..], read.stamp.is_some()), (&paths[1], &b"a"[..], true));
    refused(next(), "is_directory");
    assert_eq!(next().expect("it is there").bytes, "b");
    assert!(answers.next().is_none());
}

/// `read_many` cuts each file at the limit and says so.
pub async fn read_many_cuts_each_file(subject: &Subject) {
    for (relative, text) in [("a", "123"), ("b", "1234"), ("c", "")] {
        subject.put(relative, text).await;
    }
    let paths = ["a", "b", "c"].map(|relative| subject.at(relative));
    let answers = subject.backend().read_many(&paths, 3).await;
    let told: Vec<_> = answers
        .into_iter()
        .map(|answer| {
            answer.map(|contents| (contents.bytes.len(), contents.is_whole())).expect("it is there")
        })
        .collect();
    assert_eq!(told, [(3, true), (3, false), (0, true)]);
}

/// `read_many` of no paths returns no answers.
pub async fn read_many_of_nothing_is_nothing(subject: &Subject) {
    assert!(subject.backend().read_many(&[], 10).await.is_empty());
    assert!(subject.backend().download(&[]).await.is_empty());
    assert!(subject.backend().upload(Vec::new()).await.is_empty());
}

/// `read_many` keeps the order of more files than it reads at once, with missing files among them.
pub async fn read_many_keeps_the_order_of_many(subject: &Subject) {
    let relative =
        |number: usize| format!("{}/{number}", if number.is_multiple_of(3) { "tree/branch" } else { "dir" });
    let files: Vec<(VirtualPath, Bytes)> =
        (0..200).map(|number| (subject.at(&relative(number)), Bytes::from(number.to_string()))).collect();
    let paths: Vec<VirtualPath> = files.iter().rev().map(|(path, _)| path.clone()).collect();
    let present =
        files.into_iter().enumerate().filter(|(number, _)| number % 7 != 0).map(|(_, file)| file).collect();
    for answer in subject.backend().upload(present).await {
        answer.expect("it can be written");
    }
    let answers = subject.backend().read_many(&paths, 10).await;
    for (answer, number) in answers.into_iter().zip((0..200_usize).rev()) {
        match answer {
            Ok(contents) => assert_eq!(contents.bytes, number.to_string()),
            Err(error) => {
                assert!(number.is_multiple_of(7) && error.code() == "not_found", "{number}: {error}");
            }
        }
    }
}

/// `read_many` returns one answer each time a path occurs.
pub async fn read_many_answers_for_a_repeated_path(subject: &Subject) {
    subject.put("a", "a").await;
    let paths = ["a", "nothing", "a"].map(|relative| subject.at(relative));
    let codes: Vec<_> = subject.backend().read_many(&paths, 10).await.iter().map(Result::is_ok).collect();
    assert_eq!(codes, [true, false, true]);
}

/// `upload` writes the valid files and returns an error for each other one.
pub async fn upload_answers_in_order_with_an_error_each(subject: &Subject) {
    subject.put("file", "x").await;
    let files = ["tree/branch/new", "file/below", "tree/new", "tree"]
        .map(|relative| (subject.at(relative), Bytes::from_static(b"new")));
    let mut answers = subject.backend().upload(files.to_vec()).await.into_iter();
    let mut next = || answers.next().expect("there is an answer for each");
    assert_eq!(next().expect("it can be written").path, files[0].0);
    assert_eq!(refused(next(), "not_a_directory").path(), Some(&subject.at("file")));
    assert_eq!(next().expect("it can be written").path, files[2].0);
    refused(next(), "is_directory");
    assert!(answers.next().is_none());
    assert_eq!(subject.text("tree/branch/new").await, "new");
    assert_eq!(subject.text("tree/new").await, "new");
}

/// `upload` writes files of the same path in order, so the last one wins.
pub async fn the_last_upload_of_a_path_wins(subject: &Subject) {
    let files = (0..20).map(|number| (subject.at("dir/file"), Bytes::from(number.to_string()))).collect();
    for answer in subject.backend().upload(files).await {
        answer.expect("it can be written");
    }
    assert_eq!(subject.text("dir/file").await, "19");
}

/// `download` returns whole files in order, with an error for each failure.
pub async fn download_answers_in_order_with_an_error_each(subject: &Subject) {
    subject.put("tree/branch/a", "a").await;
    subject.put("b", vec![0, 255]).await;
    let paths = ["b", "nothing", "tree/branch/a", "tree"].map(|relative| subject.at(relative));
    let mut answers = subject.backend().download(&paths).await.into_iter();
    let mut next = || answers.next().expect("there is an answer for each");
    assert_eq!(next().expect("it is there"), vec![0, 255]);
    assert_eq!(refused(next(), "not_found").path(), Some(&paths[1]));
    assert_eq!(next().expect("it is there"), "a");
    refused(next(), "is_directory");
    assert!(answers.next().is_none());
}
