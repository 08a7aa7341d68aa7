//! Predicts the rate of each form from what flows. Pure.

use fullbore_record::terms::Form;

use crate::sink::Packed;

/// Text of COPY takes about as many bytes as the source text; lengths, nulls and escapes differ a little.
const TEXT_OF_SOURCE: f64 = 1.02;
/// Of the processors so much is the parsers': streams and the system take some.
const OURS: f64 = 0.85;
/// A form that is not predicted to bring so much more is not tried.
const WORTH_IT: f64 = 1.1;

/// What flowed in a stretch of a run.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    pub seconds: f64,
    pub source_bytes: f64,
    /// As the kernel counted them.
    pub wire_bytes: f64,
    /// Of the parsers, packing included.
    pub cpu_seconds: f64,
    /// That parsers can have.
    pub processors: f64,
}

impl Flow {
    /// Source bytes a second.
    pub fn rate(&self) -> f64 {
        self.source_bytes / self.seconds
    }
}

/// What limits the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Network,
    /// Those of this machine.
    Processors,
    Others,
}

/// What is known of forms.
pub struct Model {
    forms: Vec<Form>,
    packed: Vec<(Form, Packed)>,
    /// What the network carried when it was the limit, in bytes a second.
    capacity: Option<f64>,
}

impl Model {
    pub fn new(forms: Vec<Form>) -> Self {
        Self { forms, packed: Vec::new(), capacity: None }
    }

    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// What the codec of a form makes of the rows.
    pub fn note(&mut self, form: Form, packed: Packed) {
        self.packed.retain(|(known, _)| *known != form);
        self.packed.push((form, packed));
    }

    /// A form that did not bring what was predicted.
    pub fn forget(&mut self, form: Form) {
        self.forms.retain(|known| *known != form);
    }

    /// A better form than the present one, by what flows in it and what limits that.
    pub fn better(&mut self, now: Form, flow: &Flow, by: By) -> Option<Form> {
        if by == By::Network {
            self.capacity = Some(flow.wire_bytes / flow.seconds);
        }
        // A network that never was the limit may carry anything.
        let capacity = match (self.capacity, by) {
            (Some(capacity), _) => capacity,
            (None, By::Processors) => f64::INFINITY,
            (None, By::Network | By::Others) => return None,
        };
        let (shrunk, costs) = self.of(now)?;
        let plain = flow.wire_bytes / flow.source_bytes / shrunk;
        // Of text it is not known what the binary form would have taken.
        let plain = if now == Form::Text { None } else { Some(plain) };
        let cost = flow.cpu_seconds / flow.source_bytes - plain.unwrap_or(0.0) * costs;
        let predicted = |form: Form| {
            let (wire, cpu) = match form {
                Form::Text => (TEXT_OF_SOURCE, cost),
                form => {
                    let (shrunk, costs) = self.of(form)?;
                    (plain? * shrunk, cost + plain? * costs)
                }
            };
            let by_network = capacity / wire;
            let by_processors = flow.processors * OURS / cpu.max(1e-12);
            Some(by_network.min(by_processors))
        };
        let rates = self.forms.iter().filter_map(|form| Some((*form, predicted(*form)?)));
        let (best, rate) = rates.max_by(|one, other| one.1.total_cmp(&other.1))?;
        (best != now && rate > flow.rate() * WORTH_IT).then_some(best)
    }

    /// What is left of a byte, and what packing it costs in seconds.
    fn of(&self, form: Form) -> Option<(f64, f64)> {
        match form {
            Form::Plain | Form::Text => Some((1.0, 0.0)),
            Form::Lz4 | Form::Zstd => {
                let (_, packed) = self.packed.iter().find(|(known, _)| *known == form)?;
                Some((packed.ratio, packed.seconds_per_byte))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Form; 3] = [Form::Plain, Form::Lz4, Form::Zstd];

    /// lineitem, laid out: 1.2 bytes for each of text, parsed at 400 MB/s a processor.
    fn model() -> Model {
        let mut model = Model::new(ALL.to_vec());
        model.note(Form::Lz4, Packed { ratio: 0.5, seconds_per_byte: 1.0 / 600e6 });
        model.note(Form::Zstd, Packed { ratio: 0.3, seconds_per_byte: 1.0 / 250e6 });
        model
    }

    fn flow(rate: f64) -> Flow {
        Flow {
            seconds: 1.0,
            source_bytes: rate,
            wire_bytes: 1.2 * rate,
            cpu_seconds: rate / 400e6,
            processors: 2.0,
        }
    }

    #[test]
    fn a_slow_network_is_worth_the_best_codec_and_a_fast_one_a_fast_codec_or_none() {
        let best = |rate| model().better(Form::Plain, &flow(rate), By::Network);
        assert_eq!(best(10e6), Some(Form::Zstd));
        assert_eq!(best(80e6), Some(Form::Zstd));
        // With zstd the processors would allow 233 MB/s, with lz4 378 MB/s.
        assert_eq!(best(200e6), Some(Form::Lz4));
        assert_eq!(best(360e6), None);
    }

    #[test]
    fn nothing_is_changed_before_the_network_was_the_limit_or_codecs_are_known() {
        assert_eq!(model().better(Form::Plain, &flow(10e6), By::Others), None);
        assert_eq!(Model::new(ALL.to_vec()).better(Form::Plain, &flow(10e6), By::Network), None);
    }

    #[test]
    fn where_processors_became_the_limit_a_cheaper_form_is_taken() {
        let mut model = model();
        // It carried 250 MB/s; packed by zstd, two processors make 200 of source.
        assert!(model.better(Form::Plain, &flow(208e6), By::Network).is_some());
        let packed = Flow { wire_bytes: 1.2 * 0.3 * 150e6, cpu_seconds: 1.7, ..flow(150e6) };
        let better = model.better(Form::Zstd, &packed, By::Processors);
        assert_ne!(better, None);
    }

    #[test]
    fn a_form_that_costs_too_much_is_left_although_the_network_is_not_known() {
        let packed = Flow { wire_bytes: 1.2 * 0.3 * 200e6, cpu_seconds: 1.7, ..flow(200e6) };
        let better = |by| model().better(Form::Zstd, &packed, by);
        assert_eq!(better(By::Processors), Some(Form::Plain));
        assert_eq!(better(By::Others), None);
    }

    #[test]
    fn text_is_taken_where_it_is_shorter_and_not_left_again() {
        let forms = || vec![Form::Plain, Form::Text];
        let long = Flow { wire_bytes: 1.7 * 10e6, ..flow(10e6) };
        assert_eq!(Model::new(forms()).better(Form::Plain, &long, By::Network), Some(Form::Text));
        let short = Flow { wire_bytes: 0.8 * 10e6, ..flow(10e6) };
        assert_eq!(Model::new(forms()).better(Form::Plain, &short, By::Network), None);
        assert_eq!(Model::new(forms()).better(Form::Text, &short, By::Network), None);
    }

    #[test]
    fn a_form_that_was_given_up_is_not_tried_again() {
        let mut model = model();
        model.forget(Form::Zstd);
        assert_eq!(model.better(Form::Plain, &flow(10e6), By::Network), Some(Form::Lz4));
    }
}
