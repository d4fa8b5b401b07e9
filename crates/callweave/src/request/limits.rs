//! The rules of providers, beyond which they refuse a request, one row for each.

#[cfg(feature = "exchange")]
use super::ChoiceForm;
use super::schema::SchemaRules;
use super::{LossList, Request};
use crate::json::{Object, Value};
use crate::made_id::{hash, letters};

/// A row: the rules of one provider.
#[derive(Debug)]
pub(crate) struct ProviderLimits {
    /// The provider's name.
    pub(crate) provider: &'static str,
    /// The rows that this one is a variant of, and the prefixes of the names of the models for which it holds, after
    /// any path.
    pub(crate) models: Option<(&'static [&'static str], &'static [&'static str])>,
    /// Whether requests in its own protocol are normalized, too: it follows another's protocol by rules of its own.
    pub(crate) is_particular: bool,
    /// The placement of system messages.
    pub(crate) system: SystemPlacement,
    /// Whether it knows developers; else they are operators.
    pub(crate) knows_developers: bool,
    /// The role that sends results.
    pub(crate) results: ResultRole,
    /// Whether a result may hold more than text; else images follow all results in a message of the user's.
    pub(crate) takes_rich_results: bool,
    /// The roles that may send more than text.
    pub(crate) media: MediaRoles,
    /// The beginning of addresses of files that only this provider can reach.
    pub(crate) bucket: Option<&'static str>,
    /// Whether a text may be a document.
    pub(crate) takes_documents: bool,
    /// Whether a result may be an object.
    pub(crate) takes_object_results: bool,
    /// Whether no role may speak twice in a row.
    pub(crate) alternates: bool,
    /// Whether all messages of the model between two turns of others are one message.
    pub(crate) joins_turns: bool,
    /// The reasoning that may be replayed.
    pub(crate) replayed_reasoning: ReplayedReasoning,
    /// The issuer whose signatures of reasoning go back beside the text, through any gateway before the model.
    pub(crate) replays: Option<&'static str>,
    /// The issuer that signs calls, and not the reasoning before them.
    pub(crate) signs_calls: Option<&'static str>,
    /// The value in place of the signature of a call where there must be one.
    pub(crate) unsigned: Option<&'static str>,
    /// Whether a text may be empty or blank.
    pub(crate) takes_blank_text: bool,
    /// Whether there are tools with free text.
    pub(crate) takes_free_text: bool,
    /// Whether tools may stand in groups, and be declared in mid-conversation.
    pub(crate) takes_groups: bool,
    /// Whether the choice of tools can be narrowed; else the other tools are left out.
    pub(crate) takes_allowed_tools: bool,
    /// The ways in which a call can be forced.
    pub(crate) forced_calls: ForcedCalls,
    /// Whether a conversation with calls must declare some tool.
    pub(crate) demands_tools: bool,
    /// Whether calls must have ids.
    pub(crate) demands_ids: bool,
    /// Whether a result must stand behind its call.
    pub(crate) demands_calls: bool,
    /// The default length of a response if the request has none and the model is not known, where one is required.
    pub(crate) max_tokens: Option<u64>,
    /// The least value that a request may set as the maximum length of a response.
    pub(crate) least_tokens: u64,
    /// Whether the user must speak before the model.
    pub(crate) user_first: bool,
    /// Whether there must be a message.
    pub(crate) demands_messages: bool,
    /// Whether the provider may keep a conversation of which a request is only the end.
    pub(crate) keeps_conversations: bool,
    /// Whether a message of the model at the end of a conversation is marked as a prefix to continue.
    pub(crate) marks_prefix: bool,
    /// The form of the names of tools.
    pub(crate) tool_names: NameRule,
    /// The form of the ids of calls.
    pub(crate) call_ids: NameRule,
    /// Whether ids are `functions.NAME:NUMBER`, numbered over the complete conversation.
    pub(crate) numbers_calls: bool,
    /// Whether a call must have reasoning before it, be it empty.
    pub(crate) fills_reasoning: bool,
    /// Whether the model must speak between results and the user.
    pub(crate) bridges_results: bool,
    /// Member names of this provider, where the wire's own are refused: the usual name, and its own; none if there is
    /// no such member.
    pub(crate) words: &'static [(&'static str, Option<&'static str>)],
    /// Whether tools may be strict.
    pub(crate) takes_strict: bool,
    /// Whether tools that the provider runs have names, which no other tool may have.
    pub(crate) names_builtins: bool,
    /// Whether speakers may have names.
    pub(crate) names_speakers: bool,
    /// Whether results name their tool.
    pub(crate) names_results: bool,
    /// The schemas that are written in full, where the wire has two places for them.
    pub(crate) whole_schemas: FullSchemas,
    /// Whether the model must have spoken before it calls.
    pub(crate) speaks_first: bool,
    /// Whether a blank may end a response.
    pub(crate) takes_blank_stops: bool,
    /// The maximum number of texts that may end a response.
    pub(crate) max_stops: usize,
    /// The maximum length of the name of a user.
    pub(crate) longest_user: usize,
    /// Whether the models take a reasoning effort.
    pub(crate) takes_effort: bool,
    /// The service tiers, where others are refused.
    pub(crate) tiers: Option<&'static [&'static str]>,
    /// The modalities other than text in which a model may respond.
    pub(crate) modalities: &'static [&'static str],
    /// The maximum temperature.
    pub(crate) max_temperature: f64,
    /// The maximum `top_p`.
    pub(crate) max_top_p: f64,
    /// The rules for schemas.
    pub(crate) schemas: &'static SchemaRules,
}

/// The placement of system messages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum SystemPlacement {
    /// Above the conversation, and nowhere else.
    Above,
    /// In one message that leads: templates take no other.
    Merged,
    /// In messages, wherever they stand.
    Anywhere,
}

impl ProviderLimits {
    /// Whether all but users send one text: some templates take no list of parts, and some servers refuse one.
    pub(crate) fn wants_one_text(&self) -> bool {
        self.system == SystemPlacement::Merged
    }
}

/// The roles that may show images and the like; for all others the user shows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum MediaRoles {
    /// Users and tools.
    User,
    /// Operators, too.
    Operator,
    /// The model, too.
    Anyone,
}

/// The reasoning that may be replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ReplayedReasoning {
    /// Any reasoning that has a text.
    Plain,
    /// None.
    Never,
    /// Reasoning that this issuer signed or encrypted.
    Signed(&'static str),
    /// Reasoning that this issuer encrypted.
    Encrypted(&'static str),
}

/// The schemas that are written in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FullSchemas {
    None,
    /// Schemas that the older place, with its few keywords, cannot express.
    Others,
    All,
}

/// The ways in which a call can be forced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ForcedCalls {
    /// Of any tool, and of one that is named.
    Any,
    /// Of any tool: one is named by leaving out the others.
    Unnamed,
    /// Of a tool that is named.
    Named,
}

/// The role that sends the results of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResultRole {
    /// A role of their own.
    Tool,
    /// The user, before anything else.
    User,
}

/// The form of a name or id: ASCII letters and digits, and other allowed characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameRule {
    /// The other allowed characters.
    pub(crate) others: &'static str,
    /// The minimum and maximum length.
    pub(crate) length: (usize, usize),
    /// Whether it begins with a letter or an underscore.
    pub(crate) is_lettered: bool,
}

impl NameRule {
    const ANY: Self = Self { others: "", length: (0, usize::MAX), is_lettered: false };

    /// Whether a name can be sent as it is.
    pub(crate) fn fits(&self, word: &str) -> bool {
        word.chars().all(|character| self.allows(character))
            && (!self.is_lettered
                || word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
            && (self.length.0..=self.length.1).contains(&word.len())
    }

    fn allows(&self, character: char) -> bool {
        // Where no rule limits the length of a name, no rule limits its characters.
        self.length.1 == usize::MAX || character.is_ascii_alphanumeric() || self.others.contains(character)
    }

    /// A name that can be sent: always the same for the same name, and another for another.
    pub(crate) fn fitted(&self, word: &str, is_taken: impl Fn(&str) -> bool) -> String {
        self.fitted_from(word, &mut 0, is_taken)
    }

    /// The same, from a given salt on, where the forms before it are known to be taken.
    pub(crate) fn fitted_from(&self, word: &str, salt: &mut u64, is_taken: impl Fn(&str) -> bool) -> String {
        let mut free = |form: &dyn Fn(u64) -> String| loop {
            let fitted = form(*salt);
            *salt += 1;
            if !is_taken(&fitted) {
                return fitted;
            }
        };
        if self.fits(word) && !is_taken(word) {
            return word.to_owned();
        }
        if self.length.0 == self.length.1 {
            return free(&|salt| letters(hash(word, salt), self.length.0));
        }
        let filler = self.others.chars().next().unwrap_or('_');
        let mut clean: String = word.chars().map(|own| if self.allows(own) { own } else { filler }).collect();
        if self.is_lettered && !clean.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
            clean.insert(0, '_');
        }
        if self.fits(&clean) && clean != word && !is_taken(&clean) {
            return clean;
        }
        // Plain truncation would make one name of two.
        let end = clean.len().min(self.length.1.saturating_sub(SUFFIX + 1));
        free(&|salt| format!("{}{filler}{}", &clean[..end], letters(hash(word, salt), SUFFIX)))
    }
}

/// The number of letters that make long names differ.
const SUFFIX: usize = 8;

/// Every chat server knows `max_tokens`, by whatever name the client has it.
const OLDER_MAX_TOKENS: &[(&str, Option<&str>)] = &[("max_completion_tokens", Some("max_tokens"))];

/// OpenAI's reasoning models refuse `max_tokens`, and some providers want the newer name.
const NEWER_MAX_TOKENS: &[(&str, Option<&str>)] = &[("max_tokens", Some("max_completion_tokens"))];

/// Settings of OpenAI's own that other Chat servers do not know, each with the name that they know instead.
const COMMON: &[(&str, Option<&str>)] = &[
    ("max_completion_tokens", Some("max_tokens")),
    ("metadata", None),
    ("prompt_cache_key", None),
    ("service_tier", None),
    ("store", None),
    ("verbosity", None),
];

/// The row of Chat servers of which at most the name of the model is known.
const UNKNOWN_CHAT: &str = "unknown chat server";

/// Chat servers whose models may be of any maker.
const ANY_CHAT: &[&str] = &[UNKNOWN_CHAT, "openai-compatible"];

/// OpenAI refuses longer names of users.
const LONGEST_USER: usize = 64;

/// The prefixes of the names of OpenAI's models without reasoning settings.
const BEFORE_REASONING: &[&str] = &["gpt-3", "gpt-4", "chatgpt-"];

/// The values that most rows share.
pub(super) const USUAL: ProviderLimits = ProviderLimits {
    provider: "",
    models: None,
    is_particular: false,
    system: SystemPlacement::Anywhere,
    knows_developers: false,
    results: ResultRole::Tool,
    takes_rich_results: false,
    media: MediaRoles::User,
    bucket: None,
    takes_documents: false,
    takes_object_results: false,
    alternates: false,
    joins_turns: true,
    replayed_reasoning: ReplayedReasoning::Plain,
    replays: None,
    signs_calls: None,
    unsigned: None,
    takes_blank_text: true,
    takes_free_text: false,
    takes_groups: false,
    takes_allowed_tools: false,
    forced_calls: ForcedCalls::Any,
    demands_tools: false,
    demands_ids: true,
    demands_calls: true,
    max_tokens: None,
    least_tokens: 0,
    user_first: false,
    demands_messages: true,
    keeps_conversations: false,
    marks_prefix: false,
    tool_names: NameRule { others: "_-", length: (1, 64), is_lettered: false },
    call_ids: NameRule::ANY,
    numbers_calls: false,
    fills_reasoning: false,
    bridges_results: false,
    words: OLDER_MAX_TOKENS,
    takes_strict: true,
    names_builtins: false,
    names_speakers: false,
    names_results: false,
    whole_schemas: FullSchemas::None,
    speaks_first: false,
    takes_blank_stops: true,
    max_stops: usize::MAX,
    longest_user: usize::MAX,
    takes_effort: true,
    tiers: None,
    modalities: &[],
    max_temperature: f64::MAX,
    max_top_p: f64::MAX,
    schemas: &SchemaRules::OBJECT,
};

impl ProviderLimits {
    /// Servers of OpenAI's Chat that are not OpenAI's own.
    pub(crate) const CHAT: Self = Self {
        provider: "openai-compatible",
        words: COMMON,
        call_ids: NameRule { others: "_-.:|", length: (1, 64), is_lettered: false },
        names_speakers: true,
        system: SystemPlacement::Merged,
        longest_user: LONGEST_USER,
        modalities: &["image", "audio"],
        ..USUAL
    };

    /// Servers of OpenAI's Chat of which nothing is known. The name of the model may select a variant.
    pub(crate) const UNKNOWN_CHAT: Self = Self { provider: UNKNOWN_CHAT, ..Self::CHAT };

    /// Servers of OpenAI's Responses that are not OpenAI's own: most are a Chat server inside, and keep nothing.
    pub(crate) const COMPATIBLE_RESPONSES: Self = Self {
        provider: "responses-compatible",
        system: SystemPlacement::Merged,
        knows_developers: false,
        takes_free_text: false,
        takes_groups: false,
        takes_allowed_tools: false,
        keeps_conversations: false,
        schemas: &SchemaRules::OBJECT,
        ..Self::OPENAI_RESPONSES
    };

    /// llama-server and LM Studio: `tool_choice` is a string there.
    pub(crate) const WORD_CHOICE: Self =
        Self { provider: "word-choice", forced_calls: ForcedCalls::Unnamed, ..Self::CHAT };

    pub(crate) const WORD_CHOICE_RESPONSES: Self = Self {
        provider: "word-choice-responses",
        forced_calls: ForcedCalls::Unnamed,
        ..Self::COMPATIBLE_RESPONSES
    };

    /// llama-cpp-python makes a grammar of a tool that is named, and ignores `required`.
    pub(crate) const NAMED_CHOICE: Self =
        Self { provider: "named-choice", forced_calls: ForcedCalls::Named, ..Self::CHAT };

    pub(crate) const NAMED_CHOICE_RESPONSES: Self = Self {
        provider: "named-choice-responses",
        forced_calls: ForcedCalls::Named,
        ..Self::COMPATIBLE_RESPONSES
    };

    /// Gateways before Claude.
    pub(crate) const CLAUDE_CHAT: Self = Self {
        provider: "claude-compatible",
        models: Some((ANY_CHAT, &["claude-"])),
        replays: Some("anthropic"),
        ..Self::CHAT
    };

    /// Google's own server of OpenAI's Chat, and gateways before Gemini.
    pub(crate) const GEMINI_CHAT: Self = Self {
        provider: "gemini-compatible",
        models: Some((ANY_CHAT, &["gemini-"])),
        signs_calls: Some("google"),
        ..Self::CHAT
    };

    pub(crate) const OPENAI: Self = Self {
        provider: "openai",
        models: Some((&[UNKNOWN_CHAT], &["gpt-5", "o1", "o3", "o4"])),
        words: NEWER_MAX_TOKENS,
        takes_free_text: true,
        takes_allowed_tools: true,
        knows_developers: true,
        system: SystemPlacement::Anywhere,
        call_ids: NameRule { others: "_-.:|", length: (1, 40), is_lettered: false },
        replayed_reasoning: ReplayedReasoning::Never,
        max_stops: 4,
        tiers: Some(&["auto", "default", "flex", "scale", "priority"]),
        modalities: &["audio"],
        schemas: &SchemaRules::OPENAI,
        ..Self::CHAT
    };

    /// Other servers often go by these names, so they get the fields that every server knows; OpenAI takes them, too.
    pub(crate) const OPENAI_BEFORE_REASONING: Self = Self {
        provider: "openai-before-reasoning",
        models: Some((&[UNKNOWN_CHAT, "openai"], BEFORE_REASONING)),
        words: OLDER_MAX_TOKENS,
        takes_effort: false,
        takes_free_text: false,
        knows_developers: false,
        system: SystemPlacement::Merged,
        ..Self::OPENAI
    };

    pub(crate) const OPENAI_RESPONSES: Self = Self {
        provider: "openai-responses",
        models: None,
        takes_rich_results: true,
        media: MediaRoles::Operator,
        joins_turns: false,
        replayed_reasoning: ReplayedReasoning::Encrypted("openai"),
        takes_groups: true,
        names_speakers: false,
        least_tokens: 16,
        keeps_conversations: true,
        modalities: &[],
        call_ids: NameRule { others: "_-.:|", length: (1, 64), is_lettered: false },
        ..Self::OPENAI
    };

    pub(crate) const OPENAI_RESPONSES_BEFORE_REASONING: Self = Self {
        provider: "openai-responses-before-reasoning",
        models: Some((&["openai-responses"], BEFORE_REASONING)),
        takes_effort: false,
        ..Self::OPENAI_RESPONSES
    };

    pub(crate) const ANTHROPIC: Self = Self {
        provider: "anthropic",
        takes_documents: true,
        takes_blank_stops: false,
        max_temperature: 1.0,
        system: SystemPlacement::Above,
        results: ResultRole::User,
        takes_rich_results: true,
        alternates: true,
        replayed_reasoning: ReplayedReasoning::Signed("anthropic"),
        takes_blank_text: false,
        demands_tools: true,
        user_first: true,
        longest_user: 256,
        names_builtins: true,
        max_tokens: Some(8192),
        tool_names: NameRule { others: "_-", length: (1, 128), is_lettered: false },
        call_ids: NameRule { others: "_-", length: (1, 128), is_lettered: false },
        schemas: &SchemaRules::ANTHROPIC,
        ..USUAL
    };

    pub(crate) const GEMINI: Self = Self {
        provider: "gemini",
        bucket: Some("gs://"),
        max_stops: 5,
        media: MediaRoles::Anyone,
        system: SystemPlacement::Above,
        results: ResultRole::User,
        takes_rich_results: true,
        takes_object_results: true,
        alternates: true,
        signs_calls: Some("google"),
        takes_blank_text: false,
        takes_allowed_tools: true,
        demands_ids: false,
        user_first: true,
        tool_names: NameRule { others: "_.:-", length: (1, 64), is_lettered: true },
        names_results: true,
        modalities: &["text", "image", "audio"],
        schemas: &SchemaRules::GEMINI,
        ..USUAL
    };

    /// Since this version a schema may be written in full, in members of its own.
    pub(crate) const GEMINI_2_5: Self = Self {
        provider: "gemini-2.5",
        models: Some((
            &["gemini"],
            &["gemini-2.5", "gemini-pro-latest", "gemini-flash-latest", "gemini-flash-lite-latest"],
        )),
        whole_schemas: FullSchemas::Others,
        schemas: &SchemaRules::OBJECT,
        ..Self::GEMINI
    };

    pub(crate) const GEMINI_3: Self = Self {
        provider: "gemini-3",
        models: Some((&["gemini"], &["gemini-3"])),
        // Base64 of `skip_thought_signature_validator`: a history from elsewhere has no signatures.
        unsigned: Some("c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="),
        whole_schemas: FullSchemas::All,
        ..Self::GEMINI_2_5
    };

    pub(crate) const CONVERSE: Self = Self {
        provider: "bedrock",
        bucket: Some("s3://"),
        speaks_first: true,
        max_temperature: 1.0,
        takes_documents: true,
        system: SystemPlacement::Above,
        results: ResultRole::User,
        takes_rich_results: true,
        takes_object_results: true,
        alternates: true,
        replayed_reasoning: ReplayedReasoning::Signed("anthropic"),
        takes_blank_text: false,
        demands_tools: true,
        user_first: true,
        call_ids: NameRule { others: "_-", length: (1, 64), is_lettered: false },
        ..USUAL
    };

    pub(crate) const OLLAMA: Self = Self {
        provider: "ollama",
        media: MediaRoles::Anyone,
        takes_rich_results: true,
        names_results: true,
        demands_ids: false,
        demands_calls: false,
        // Without messages a model is loaded.
        demands_messages: false,
        tool_names: NameRule::ANY,
        schemas: &SchemaRules::OLLAMA,
        ..USUAL
    };

    pub(crate) const COHERE: Self = Self {
        provider: "cohere",
        takes_blank_text: false,
        max_stops: 5,
        max_top_p: 0.99,
        schemas: &SchemaRules::DEMANDED,
        ..USUAL
    };

    pub(crate) const MISTRAL: Self = Self {
        provider: "mistral",
        max_temperature: 1.5,
        is_particular: true,
        models: Some((
            ANY_CHAT,
            &["mistral-", "ministral-", "codestral-", "devstral-", "pixtral-", "magistral-", "open-mistral-"],
        )),
        alternates: true,
        bridges_results: true,
        marks_prefix: true,
        replayed_reasoning: ReplayedReasoning::Never,
        call_ids: NameRule { others: "", length: (9, 9), is_lettered: false },
        words: &[
            ("max_completion_tokens", Some("max_tokens")),
            ("seed", Some("random_seed")),
            ("stream_options", None),
            ("metadata", None),
            ("prompt_cache_key", None),
            ("service_tier", None),
            ("store", None),
            ("user", None),
            ("verbosity", None),
        ],
        names_results: true,
        schemas: &SchemaRules::DEMANDED,
        ..USUAL
    };

    pub(crate) const DEEPSEEK: Self = Self {
        provider: "deepseek",
        is_particular: true,
        models: Some((ANY_CHAT, &["deepseek-"])),
        words: COMMON,
        fills_reasoning: true,
        ..USUAL
    };

    pub(crate) const MOONSHOT: Self = Self {
        provider: "moonshot",
        is_particular: true,
        models: Some((ANY_CHAT, &["kimi-", "moonshot-"])),
        words: COMMON,
        numbers_calls: true,
        schemas: &SchemaRules::MOONSHOT,
        fills_reasoning: true,
        ..USUAL
    };

    pub(crate) const FIREWORKS: Self =
        Self { provider: "fireworks", is_particular: true, words: COMMON, ..USUAL };

    pub(crate) const GROQ: Self = Self {
        provider: "groq",
        is_particular: true,
        replayed_reasoning: ReplayedReasoning::Never,
        words: NEWER_MAX_TOKENS,
        ..USUAL
    };

    pub(crate) const CEREBRAS: Self = Self {
        provider: "cerebras",
        is_particular: true,
        replayed_reasoning: ReplayedReasoning::Never,
        words: NEWER_MAX_TOKENS,
        ..USUAL
    };

    pub(crate) const XAI: Self = Self {
        provider: "xai",
        is_particular: true,
        models: Some((ANY_CHAT, &["grok-"])),
        takes_strict: false,
        ..USUAL
    };

    /// The variant of this row that holds for a model.
    pub(super) fn of_model(&'static self, model: &str) -> &'static Self {
        let name = model.rsplit('/').next().unwrap_or(model);
        let is_variant = |row: &&Self| {
            row.models.is_some_and(|(bases, starts)| {
                bases.contains(&self.provider) && starts.iter().any(|start| name.starts_with(start))
            })
        };
        VARIANTS.iter().find(is_variant).unwrap_or(self)
    }

    /// Whether the provider may keep the conversation that a request goes on with.
    pub(super) fn may_keep(&self, request: &Request, protocol: &str) -> bool {
        self.keeps_conversations && (request.previous.is_some() || request.protocol == Some(protocol))
    }

    /// The issuer of the signatures and encrypted reasoning in its responses.
    pub(super) fn issuer(&self) -> Option<&'static str> {
        match self.replayed_reasoning {
            ReplayedReasoning::Signed(issuer) | ReplayedReasoning::Encrypted(issuer) => Some(issuer),
            ReplayedReasoning::Plain | ReplayedReasoning::Never => self.replays.or(self.signs_calls),
        }
    }

    /// Whether it takes several system messages, developers and tools that are no functions, which not every server of
    /// its protocol does.
    pub(crate) fn takes_uncommon(&self) -> bool {
        self.system != SystemPlacement::Merged
    }

    /// Whether it takes a choice of tools in that form.
    #[cfg(feature = "exchange")]
    pub(crate) fn takes_choice(&self, form: ChoiceForm) -> bool {
        match form {
            ChoiceForm::Free => true,
            ChoiceForm::Required => self.forced_calls != ForcedCalls::Named,
            ChoiceForm::Named => self.forced_calls != ForcedCalls::Unnamed,
            ChoiceForm::Allowed => self.takes_allowed_tools,
        }
    }

    /// Gives members of a body this provider's names.
    ///
    /// A member that it does not know is left out if the client did not write it for this protocol.
    pub(crate) fn respell(&self, body: &mut Object, is_own: bool, losses: &mut LossList) {
        losses.at(format_args!(""));
        for (usual, own) in self.words {
            if own.is_none() && is_own && !self.is_particular {
                continue;
            }
            let Some(value) = body.remove(usual) else { continue };
            match own {
                Some(own) => {
                    body.insert(*own, value);
                }
                None => losses.put(usual.replace('_', " ")),
            }
        }
        if self.marks_prefix
            && let Some(Value::Array(messages)) = body.get_mut("messages")
            && let Some(Value::Object(last)) = messages.iter_mut().next_back()
            && last["role"] == "assistant"
        {
            last.insert("prefix", true);
        }
    }
}

/// The rows that hold for models of certain names.
static VARIANTS: &[ProviderLimits] = &[
    ProviderLimits::CLAUDE_CHAT,
    ProviderLimits::GEMINI_CHAT,
    ProviderLimits::OPENAI,
    ProviderLimits::OPENAI_BEFORE_REASONING,
    ProviderLimits::OPENAI_RESPONSES_BEFORE_REASONING,
    ProviderLimits::GEMINI_2_5,
    ProviderLimits::GEMINI_3,
    ProviderLimits::MISTRAL,
    ProviderLimits::DEEPSEEK,
    ProviderLimits::MOONSHOT,
    ProviderLimits::XAI,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_made_to_fit_and_stay_apart() {
        let names = ProviderLimits::CHAT.tool_names;
        assert_eq!(names.fitted("files.read", |_| false), "files_read");
        let long = "a".repeat(70);
        let (one, other) =
            (names.fitted(&format!("{long}1"), |_| false), names.fitted(&format!("{long}2"), |_| false));
        assert_ne!(one, other);
        assert!(names.fits(&one) && names.fits(&other));
        assert_ne!(names.fitted("files.read", |name| name == "files_read"), "files_read");

        let ids = ProviderLimits::MISTRAL.call_ids;
        assert_eq!(ids.fitted("abcDEF123", |_| false), "abcDEF123");
        assert!(ids.fits(&ids.fitted("call_1", |_| false)));
        assert_ne!(ids.fitted("call_1", |_| false), ids.fitted("call_2", |_| false));
    }
}
