//! Tests of the skills that users uploaded.

use prowess_store::serve::{NewOwnSkill, OwnSkillError, OwnSkillLimits};

use super::two_users;
use crate::support::databases;

const LIMITS: OwnSkillLimits = OwnSkillLimits { skills: 3, bytes: 100 };

fn skill(name: &str, digest: u8, bytes: u64) -> NewOwnSkill {
    let (name, description) = (name.to_owned(), "Looks up \u{0} tides.".to_owned());
    NewOwnSkill { digest: [digest; 32], name, description, files: 2, bytes }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trust_is_for_one_digest_and_a_new_version_waits() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let [anna, ben] = two_users(&database).await;
        let skills = database.own_skills();
        assert_eq!(
            skills.add(&anna.id, &skill("tides", 1, 10), LIMITS).await.unwrap(),
            Vec::<[u8; 32]>::new()
        );
        // An upload that nobody trusts is replaced.
        assert_eq!(skills.add(&anna.id, &skill("tides", 2, 10), LIMITS).await.unwrap(), [[1; 32]]);
        assert_eq!(skills.trust(&anna.id, &[2; 32], &anna.id, false).await.unwrap(), Vec::<[u8; 32]>::new());
        // The trusted version stays beside a newer one.
        assert!(skills.add(&anna.id, &skill("tides", 3, 10), LIMITS).await.unwrap().is_empty());
        let trusted = || async {
            let list = skills.list(&anna.id).await.unwrap();
            list.iter().map(|skill| (skill.digest[0], skill.trust.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(trusted().await, [(2, true), (3, false)]);
        // The same files again change nothing.
        skills.add(&anna.id, &skill("tides", 2, 10), LIMITS).await.unwrap();
        assert_eq!(trusted().await, [(2, true), (3, false)]);
        assert_eq!(skills.trust(&anna.id, &[3; 32], &ben.id, true).await.unwrap(), [[2; 32]]);
        let list = skills.list(&anna.id).await.unwrap();
        let trust = list[0].trust.as_ref().unwrap();
        assert_eq!((list.len(), &trust.by, trust.by_admin), (1, &ben.id, true));
        assert_eq!((list[0].name.as_str(), list[0].description.as_str()), ("tides", "Looks up \u{0} tides."));
        assert_eq!((list[0].files, list[0].bytes), (2, 10));
        skills.distrust(&anna.id, &[3; 32]).await.unwrap();
        assert_eq!(trusted().await, [(3, false)]);
        skills.remove(&anna.id, &[3; 32]).await.unwrap();
        assert!(matches!(skills.remove(&anna.id, &[3; 32]).await, Err(OwnSkillError::NotFound)));
        assert_eq!(trusted().await, []);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_has_so_many_skills_and_bytes() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let [anna, ben] = two_users(&database).await;
        let skills = database.own_skills();
        let no_room = |result: Result<_, OwnSkillError>| matches!(result, Err(OwnSkillError::NoRoom));
        assert!(no_room(skills.add(&anna.id, &skill("a", 1, 101), LIMITS).await));
        for number in 1..=3 {
            skills.add(&anna.id, &skill(&format!("s{number}"), number, 30), LIMITS).await.unwrap();
        }
        assert!(no_room(skills.add(&anna.id, &skill("s4", 4, 1), LIMITS).await));
        // One that is replaced makes room, and one that is refused removes nothing.
        assert!(no_room(skills.add(&anna.id, &skill("s3", 5, 41), LIMITS).await));
        assert_eq!(skills.list(&anna.id).await.unwrap().len(), 3);
        skills.add(&anna.id, &skill("s3", 5, 40), LIMITS).await.unwrap();
        skills.add(&ben.id, &skill("s3", 5, 100), LIMITS).await.unwrap();
        assert!(no_room(skills.add("nobody", &skill("a", 1, 1), LIMITS).await));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_136_own_skills_of_others_do_not_exist() {
    let place = tempfile::tempdir().unwrap();
    for database in databases(&place).await {
        let [anna, ben] = two_users(&database).await;
        let skills = database.own_skills();
        skills.add(&anna.id, &skill("tides", 1, 10), LIMITS).await.unwrap();
        for other in [ben.id.as_str(), "nobody", "\u{0}"] {
            let missing = |result: Result<(), OwnSkillError>| matches!(result, Err(OwnSkillError::NotFound));
            assert_eq!(skills.list(other).await.unwrap(), []);
            assert_eq!(skills.get(other, &[1; 32]).await.unwrap(), None);
            assert!(missing(skills.trust(other, &[1; 32], other, true).await.map(drop)));
            assert!(missing(skills.distrust(other, &[1; 32]).await));
            assert!(missing(skills.remove(other, &[1; 32]).await));
        }
        // Administrators see what waits, of all users.
        skills.add(&ben.id, &skill("charts", 2, 10), LIMITS).await.unwrap();
        skills.trust(&ben.id, &[2; 32], &ben.id, false).await.unwrap();
        let names = || async {
            let waiting = skills.waiting(9).await.unwrap();
            waiting.into_iter().map(|skill| (skill.owner, skill.name)).collect::<Vec<_>>()
        };
        assert_eq!(names().await, [(anna.id.clone(), "tides".into()), (ben.id.clone(), "charts".into())]);
        skills.trust(&ben.id, &[2; 32], &anna.id, true).await.unwrap();
        assert_eq!(names().await, [(anna.id.clone(), "tides".into())]);
        assert_eq!(skills.waiting(0).await.unwrap(), []);
    }
}
