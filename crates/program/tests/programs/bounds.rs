//! Objects that would take too long to compile, or that have what policies may not have, are
//! refused before they are compiled.

use crate::common::{load, toolchain};
use crate::objects::{
    BLOCK, BRANCH_IF, END, FIRST_MIRROR, GET_CONTEXT, LOOP, Object, increment, number,
};
use mirrorball_program::Loader;
use mirrorball_program::structure::{
    BRANCHES_MAX, FUNCTION_BRANCHES_MAX, FUNCTIONS_MAX, INSTRUCTIONS_MAX, JOINED_VALUES_MAX,
    LOCALS_MAX, LOOPS_MAX, NESTING_MAX, OPERANDS_MAX,
};

/// Loads `choose` with so many locals and these instructions before it returns.
fn load_code(locals: u32, code: &[u8]) -> Result<(), String> {
    let choose = [code, FIRST_MIRROR].concat();
    load_object(&Object { locals, choose, ..Object::default() })
}

fn load_object(object: &Object) -> Result<(), String> {
    let loaded = Loader::new().unwrap().load_program(&object.bytes());
    loaded.map(|_| ()).map_err(|error| error.to_string())
}

/// Loops within each other, each with a branch back.
fn nested_loops(depth: usize) -> Vec<u8> {
    let close = [GET_CONTEXT, BRANCH_IF, END].concat();
    [LOOP.repeat(depth), increment(1), close.repeat(depth)].concat()
}

/// A loop that changes locals 1 to `count`.
fn changing_loop(count: u32) -> Vec<u8> {
    let changes: Vec<u8> = (1..=count).flat_map(increment).collect();
    [LOOP, &changes, GET_CONTEXT, BRANCH_IF, END].concat()
}

/// `br_table` to the end of one block.
fn branch_table(targets: usize) -> Vec<u8> {
    let table = [&[0x0e][..], &number(targets as u64 - 1), &vec![0; targets]].concat();
    [BLOCK, GET_CONTEXT, &table, END].concat()
}

/// Limit of each bound, with the value that is refused and the one less that is accepted.
#[test]
fn each_bound_is_the_most_that_is_accepted() {
    let calls = |count| [0x10, 1].repeat(count);
    let calling = |count| Object {
        choose: [calls(count), FIRST_MIRROR.to_vec()].concat(),
        others: vec![Vec::new()],
        ..Object::default()
    };
    let functions = |count: usize| Object {
        choose: FIRST_MIRROR.to_vec(),
        others: vec![vec![]; count - 1],
        ..Object::default()
    };
    let spread = |each: usize| Object {
        choose: FIRST_MIRROR.to_vec(),
        others: vec![Vec::new(), calls(each), calls(each), calls(each)],
        ..Object::default()
    };
    // One of them is the address of the context.
    let locals = |count: usize| load_code(count as u32 - 1, &[]);
    // A function has two more: the constant and the end.
    let drops = |count: usize| load_code(0, &[GET_CONTEXT, &[0x1a]].concat().repeat(count / 2 - 1));
    // A loop joins a value for each local, and one for the branch itself, on two ways.
    let joins = |count: usize| load_code(255, &changing_loop(255).repeat(count / 2 / 256));
    let operands = |count: u32| {
        let count = count as usize;
        load_code(0, &[GET_CONTEXT.repeat(count), [0x1a].repeat(count)].concat())
    };
    let cases = [
        (
            "functions",
            load_object(&functions(FUNCTIONS_MAX)),
            load_object(&functions(FUNCTIONS_MAX + 1)),
        ),
        ("local variables in a function", locals(LOCALS_MAX), locals(LOCALS_MAX + 1)),
        ("instructions", drops(INSTRUCTIONS_MAX), drops(INSTRUCTIONS_MAX + 2)),
        (
            "nested blocks",
            load_code(1, &nested_loops(NESTING_MAX)),
            load_code(1, &nested_loops(NESTING_MAX + 1)),
        ),
        (
            "branches and calls in a function",
            load_object(&calling(FUNCTION_BRANCHES_MAX)),
            load_object(&calling(FUNCTION_BRANCHES_MAX + 1)),
        ),
        (
            "branches and calls in a function",
            load_code(0, &branch_table(FUNCTION_BRANCHES_MAX - 2)),
            load_code(0, &branch_table(FUNCTION_BRANCHES_MAX)),
        ),
        (
            "branches and calls",
            load_object(&spread(BRANCHES_MAX / 3)),
            load_object(&spread(BRANCHES_MAX / 3 + 1)),
        ),
        (
            "loops",
            load_code(1, &changing_loop(1).repeat(LOOPS_MAX)),
            load_code(1, &changing_loop(1).repeat(LOOPS_MAX + 1)),
        ),
        ("values on the stack of operands", operands(OPERANDS_MAX), operands(OPERANDS_MAX + 1)),
        ("values to join", joins(JOINED_VALUES_MAX - 512), joins(JOINED_VALUES_MAX + 512)),
    ];
    for (what, accepted, refused) in cases {
        assert_eq!(accepted, Ok(()), "{what}");
        let error = refused.err().unwrap_or_else(|| panic!("accepted: too many {what}"));
        assert!(error.contains("the program has more than "), "{error}");
        assert!(error.contains(&format!(" {what}\n")), "{error}");
    }
}

/// Each took the compiler from 5 s to minutes.
#[test]
fn objects_that_would_take_minutes_to_compile_are_refused() {
    let sequence = changing_loop(1).repeat(1000);
    let table = [BLOCK, GET_CONTEXT, &[0x0e], &number(20_000), &vec![0; 20_001], END].concat();
    for (locals, code) in
        [(1, nested_loops(2000)), (1, sequence), (200, changing_loop(200).repeat(60)), (1, table)]
    {
        let error = load_code(locals, &code).unwrap_err();
        assert!(error.contains("the program has more than"), "{error}");
        assert!(error.contains("help: make it smaller: the limits of docs/policies.md"), "{error}");
    }
}

#[test]
fn a_start_function_is_refused() {
    let object = Object {
        choose: FIRST_MIRROR.to_vec(),
        others: vec![Vec::new()],
        start: Some(1),
        ..Object::default()
    };
    let error = load_object(&object).unwrap_err();
    assert!(error.contains("a start function, which would run before its parameters"), "{error}");
    assert_eq!(load_object(&Object { start: None, ..object }), Ok(()));
}

#[test]
fn an_object_that_makes_its_memory_or_table_grow_is_refused() {
    let grow_memory = [GET_CONTEXT, &[0x40, 0, 0x1a]].concat();
    let error = load_code(0, &grow_memory).unwrap_err();
    assert!(error.contains("makes its memory grow"), "{error}");
    // `ref.null func; i32.const 1; table.grow 0; drop`
    let error = load_code(0, &[0xd0, 0x70, 0x41, 1, 0xfc, 15, 0, 0x1a]).unwrap_err();
    assert!(error.contains("changes its table of function pointers"), "{error}");
}

/// Without recursion, the depth of the stack does not depend on the machine.
#[test]
fn recursion_is_refused() {
    let call = |function| vec![0x10, function];
    let by_pointer = |kind| vec![0x41, 0, 0x11, kind, 0];
    let object = |others: Vec<Vec<u8>>, table| Object {
        choose: FIRST_MIRROR.to_vec(),
        others,
        table,
        ..Object::default()
    };
    let loops = [
        object(vec![call(1)], vec![]),
        object(vec![call(2), call(3), call(1)], vec![]),
        object(vec![by_pointer(1)], vec![1]),
        object(vec![call(2), by_pointer(1)], vec![1]),
    ];
    for (place, object) in loops.iter().enumerate() {
        let error = load_object(object).expect_err(&format!("accepted: {place}"));
        assert!(error.contains("calls itself, perhaps by others"), "{error}");
    }
    // Functions that are called twice, and one by pointer that cannot be the caller.
    let tree = object(vec![[call(2), call(3)].concat(), call(3), Vec::new()], vec![]);
    assert_eq!(load_object(&tree), Ok(()));
    let other = object(vec![[by_pointer(1), by_pointer(1)].concat(), Vec::new()], vec![2]);
    assert_eq!(load_object(&other), Ok(()));
}

#[test]
fn recursion_in_c_is_refused_with_what_to_do() {
    let Some(toolchain) = toolchain() else { return };
    let text = "MB_PROGRAM(\"deep\", \"1\", \"\", \"\");\n\
                static __attribute__((noinline)) u64 deep(u64 n)\n\
                { return n > 1 ? deep(n - 1) + deep(n - 2) : n; }\n\
                MB_CHOOSE(c) { return deep(c->nr) & 1; }\n";
    let error = load(&toolchain, text).unwrap_err().to_string();
    assert!(error.contains("calls itself"), "{error}");
    assert!(error.contains("help: use a loop: policies have no recursion"), "{error}");
}
