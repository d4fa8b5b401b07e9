//! Properties of models that count their reasoning among the tokens of the response, on any server: the maximum length
//! of their responses, whether they take an effort or a budget, and the room beside reasoning.

use super::ReasoningSettings;

/// The maximum length of a response, by a part of the model's name; the first match counts.
const OUTPUTS: &[(&str, u64)] = &[
    ("claude-3-5", 8192),
    ("claude-3-7", 64_000),
    ("claude-3", 4096),
    ("claude-2", 4096),
    ("claude-instant", 4096),
    ("claude-opus-4-5", 64_000),
    ("claude-opus-4-6", 128_000),
    ("claude-opus-4-7", 128_000),
    ("claude-opus-4", 32_000),
    ("claude-opus", 128_000),
    ("claude-", 64_000),
];

/// The maximum number of tokens of a model's response, if that is known.
pub(crate) fn max_output(model: &str) -> Option<u64> {
    OUTPUTS.iter().find(|(part, _)| model.contains(part)).map(|(_, most)| *most)
}

/// Takes the way in which reasoning is shown, in the words of Anthropic's models.
pub(crate) fn take_display(reasoning: &mut ReasoningSettings) -> Option<&'static str> {
    let summary = reasoning.summary.take();
    summary.map(|summary| if summary == "none" { "omitted" } else { "summarized" })
}

/// The minimum of a budget.
const LEAST_BUDGET: u64 = 1024;

/// The room that is left for the response, where there is enough.
const ROOM: u64 = 4096;

/// The least room for any response.
const LEAST_ROOM: u64 = 512;

/// A budget for reasoning that leaves room for the response; none if there is no room for both.
pub(crate) fn budget_within(budget: u64, most: u64) -> Option<u64> {
    let room = ROOM.min(most / 2);
    let budget = budget.min(most - room).max(LEAST_BUDGET);
    (most >= budget + LEAST_ROOM).then_some(budget)
}

/// Parts of the names of models that Amazon serves and Anthropic did not make.
const OTHER_MAKERS: &[&str] = &[
    "amazon.", "nova", "meta.", "llama", "mistral", "cohere", "ai21", "deepseek", "openai.", "gpt-", "qwen",
    "gemma",
];

/// Whether a maker other than Anthropic, whose models take a budget for reasoning, made the model. Custom names decide
/// nothing.
pub(crate) fn is_of_other_maker(model: &str) -> bool {
    !model.contains("claude") && OTHER_MAKERS.iter().any(|maker| model.contains(maker))
}

/// Whether the model decides by itself how much it reasons: from version 4.6 on.
pub(crate) fn is_adaptive(model: &str) -> bool {
    version(model) >= (4, 6)
}

/// Whether the model knows effort: Opus since 4.5, the others since they decide by themselves.
pub(crate) fn knows_effort(model: &str) -> bool {
    is_adaptive(model) || model.contains("opus") && version(model) >= (4, 5)
}

/// Whether the model takes `temperature` and `top_p` together. Claude's do not since 4.1, and a Claude name without a
/// version is that of a newer one.
pub(crate) fn takes_both_samplings(model: &str) -> bool {
    !model.contains("claude") || ((1, 0)..(4, 1)).contains(&version(model))
}

/// The version in a model's name; dates are no versions.
pub(crate) fn version(model: &str) -> (u32, u32) {
    let rest = model.split_once("claude-").map_or("", |(_, rest)| rest);
    let numbers = rest.split(['-', '.', '@', ':']).filter_map(|word| word.parse().ok());
    let mut numbers = numbers.filter(|number: &u32| *number < 100);
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_leave_room_for_the_answer() {
        for (budget, most, expected) in [
            (8192, 64_000, Some(8192)),
            (24_576, 64_000, Some(24_576)),
            (63_999, 64_000, Some(59_904)),
            (8000, 2000, Some(1024)),
            (100, 9000, Some(1024)),
            (4096, 1500, None),
            (4096, 1, None),
        ] {
            assert_eq!(budget_within(budget, most), expected, "{budget} of {most}");
        }
    }

    #[test]
    fn newer_models_take_one_way_of_sampling() {
        for (model, takes) in [
            ("claude-sonnet-4-5", false),
            ("us.anthropic.claude-opus-4-1-20250805-v1:0", false),
            ("claude-haiku-latest", false),
            ("claude-sonnet-4-20250514", true),
            ("claude-3-5-haiku-latest", true),
            ("kimi-k2", true),
        ] {
            assert_eq!(takes_both_samplings(model), takes, "{model}");
        }
    }

    #[test]
    fn models_are_known_by_their_names() {
        for (model, most) in [
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", Some(64_000)),
            ("claude-3-haiku-20240307", Some(4096)),
            ("claude-3-5-sonnet-latest", Some(8192)),
            ("claude-opus-4-1", Some(32_000)),
            ("claude-opus-4-6", Some(128_000)),
            ("gpt-5", None),
        ] {
            assert_eq!(max_output(model), most, "{model}");
        }
    }
}
