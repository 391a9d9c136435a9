//! What the names of test cases tell that their elements do not.

/// Whether a failed test case of this name is what a runner writes in place of tests that it could not load or set up.
pub(super) fn stands_for_others(name: &str, classname: &str, suite: &str) -> bool {
    // unittest, by whatever writer: a module that cannot be imported, a fixture of a class or a module.
    let fixture = ["setUpModule (", "setUpClass (", "tearDownClass (", "tearDownModule ("];
    // Where a writer splits its id is its own affair.
    [classname, name].iter().any(|part| part.contains("unittest.loader._FailedTest"))
        || fixture.iter().any(|fixture| name.starts_with(fixture))
        // jest-junit, vitest and node: a file.
        || classname == "Test suite failed to run"
        || (name == classname && name == suite)
        || (classname == "test" && name.starts_with('/'))
}

/// Where the name of a Python test ends and that of a subtest begins: unittest-xml-reporting writes only the subtests that
/// fail, as `test_x (i=1)` or `test_x [message] (i=1)`, so that one that is mended would be a test that is missing.
pub(super) fn subtest_at(name: &str, file: &str) -> Option<usize> {
    let space = name.find(' ')?;
    let word = |c: char| c.is_alphanumeric() || c == '_';
    (file.as_bytes().ends_with(b".py") && name.ends_with(')') && name[..space].chars().all(word))
        .then_some(space)
}
