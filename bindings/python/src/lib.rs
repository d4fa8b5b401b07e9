//! The package `callweave` for Python, over the library: classes and functions here, what is easier said in Python
//! (exceptions, tools, streams, clients) in `python/callweave`.

mod arrow;
mod bytes_like;
mod compat;
mod convert;
mod decoder;
mod error;
mod event;
mod exchange;
mod json;
mod message;
mod program;
mod protocols;
mod repair;
mod tools;
mod typed;

#[pyo3::pymodule]
mod _callweave {
    #[pymodule_export]
    use crate::arrow::{
        Batch, Report, Stream, convert as arrow_convert, decode as arrow_decode, demo as arrow_demo,
        extract as arrow_extract, repair as arrow_repair, report,
    };
    #[pymodule_export]
    use crate::compat::{Agent, ProcessStream, ToolCallAggregator, process_response};
    #[pymodule_export]
    use crate::convert::{
        ConvertedRequest, Converter, augment_system_prompt, convert, convert_request, dialect_of, teach,
    };
    #[pymodule_export]
    use crate::decoder::{Decoder, Extractor, decode, decode_all, extract};
    #[pymodule_export]
    use crate::event::{
        AttachmentEvent, BlockEndEvent, BlockStartEvent, ChoiceStartEvent, CorrectionEvent, DeltaEvent,
        EndEvent, ErrorEvent, ExtraEvent, FinishEvent, IdentityEvent, ItemEndEvent, ItemStartEvent,
        MarkupEvent, NoticeEvent, ProgressEvent, StartEvent, UsageEvent,
    };
    #[pymodule_export]
    use crate::exchange::{CallOutcome, Exchange, ExchangeEngine, HttpRequest, Loss, ResponseHead};
    #[pymodule_export]
    use crate::message::{Attachment, Block, Choice, InvalidCall, Message, Notice, ToolCall, Usage};
    #[pymodule_export]
    use crate::program::run_program;
    #[pymodule_export]
    use crate::protocols::{dialects, protocols};
    #[pymodule_export]
    use crate::repair::{
        CoercedValue, CoercionChange, PartialJson, RepairChange, RepairedJson, coerce, partial, repair,
    };
    #[pymodule_export]
    use crate::tools::Tools;

    /// The version of the package.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name of it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
