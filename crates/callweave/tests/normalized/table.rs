//! The table of losses in `docs/translation.md`, made from what the encoders say of the own cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::laws::decode_truncated;
use crate::samples::samples;
use crate::translation::written;
use crate::{WIRES, document};

const HEAD: &str = "# What translating an answer loses

Answers are read into events or a message and written in any protocol (`Protocol::encoder`, `Protocol::encode_whole`). In
faithful mode an answer comes back in its own protocol as it was. In mended mode it is written for clients, and what
those cannot be told is a loss: `Encoder::losses` names it for a stream, `Protocol::losses` for a whole body, each with
its place.

The table is made by `BLESS=1 cargo test -p callweave --all-features --test normalized` from the cases in
`crates/callweave/tests/data/protocol`. `lost` means that some case of another protocol was written without it, streamed
(`in a stream`), whole (`in a body`) or both. The same test holds that nothing else is lost, there and back, and that each
of these is.

";

#[test]
fn the_table_of_losses_is_current() {
    // In which forms of which protocols each is lost.
    let mut lost: BTreeMap<String, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for sample in samples().iter().filter(|sample| sample.is_own) {
        let decoded = decode_truncated(Some(sample.protocol), &sample.bytes, &[]);
        if decoded.error.is_some() {
            continue;
        }
        for wire in WIRES.iter().filter(|wire| wire.name != sample.protocol.name) {
            for written in written(wire, &decoded.events, &decoded.message) {
                for loss in written.losses {
                    let what = match loss.what.starts_with("member ") {
                        true => "members that only another protocol knows".to_owned(),
                        false => loss.what,
                    };
                    lost.entry(what).or_default().entry(wire.name).or_default().insert(written.form);
                }
            }
        }
    }
    let names: Vec<&str> = WIRES.iter().map(|wire| wire.name).collect();
    let mut text = HEAD.to_owned();
    let _ = writeln!(text, "| | {} |", names.join(" | "));
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for (what, places) in &lost {
        let cell = |name: &&str| match places.get(name).map(|forms| forms.iter().copied().collect::<Vec<_>>())
        {
            None => "",
            Some(forms) if forms.len() > 1 => "lost",
            Some(forms) if forms == ["stream"] => "lost in a stream",
            Some(_) => "lost in a body",
        };
        let cells: Vec<&str> = names.iter().map(cell).collect();
        let _ = writeln!(text, "| {what} | {} |", cells.join(" | "));
    }
    document::expect_part("answers", &text);
}
