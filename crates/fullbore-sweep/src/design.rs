//! Factors, their levels, and the cells that they span.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is varied, and the values it takes: `streams=1,2,4`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    pub name: String,
    pub levels: Vec<String>,
}

impl FromStr for Factor {
    type Err = String;

    /// Levels are separated by commas, or by semicolons where one of them has commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let (name, levels) =
            text.split_once('=').ok_or_else(|| format!("{text:?} is not NAME=A,B,C"))?;
        let separator = if levels.contains(';') { ';' } else { ',' };
        let levels: Vec<String> =
            levels.split(separator).map(|level| level.trim().to_owned()).collect();
        let is_named = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
        if !is_named {
            return Err(format!("{name:?} is not the name of an option"));
        }
        if levels.len() < 2 || levels.iter().any(String::is_empty) {
            return Err(format!("{text:?}: {name} needs two values or more"));
        }
        if let Some(twice) =
            levels.iter().enumerate().find(|(n, level)| levels[..*n].contains(level))
        {
            return Err(format!("{text:?}: {} is there twice", twice.1));
        }
        Ok(Self { name: name.to_owned(), levels })
    }
}

impl Factor {
    /// Whether its levels are ascending numbers: 1, 2, 4.
    pub fn is_ascending(&self) -> bool {
        let numbers: Option<Vec<f64>> =
            self.levels.iter().map(|level| level.parse().ok()).collect();
        numbers.is_some_and(|numbers| numbers.is_sorted())
    }
}

/// A level of each factor, by its number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell(pub Vec<usize>);

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Design {
    pub factors: Vec<Factor>,
    /// What the others are compared with.
    pub baseline: Cell,
    /// Decides the order of each block.
    pub seed: u64,
}

impl Design {
    /// A design whose baseline has the first level of each factor, or the one that is named: `streams=4`.
    pub fn new(
        factors: Vec<Factor>,
        baseline: &[(String, String)],
        seed: u64,
    ) -> Result<Self, String> {
        if let Some((n, _)) = factors
            .iter()
            .enumerate()
            .find(|(n, factor)| factors[..*n].iter().any(|other| other.name == factor.name))
        {
            return Err(format!("{} is varied twice", factors[n].name));
        }
        let mut at = vec![0; factors.len()];
        for (name, level) in baseline {
            let place = factors.iter().position(|factor| factor.name == *name);
            let place =
                place.ok_or_else(|| format!("the baseline names {name}, which isn't varied"))?;
            let found = factors[place].levels.iter().position(|known| known == level);
            at[place] =
                found.ok_or_else(|| format!("{level} is no value of {name} that is varied"))?;
        }
        Ok(Self { factors, baseline: Cell(at), seed })
    }

    /// All cells; the last factor changes fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell(Vec::new())];
        for factor in &self.factors {
            let longer = |cell: &Cell| {
                let cell = cell.0.clone();
                (0..factor.levels.len())
                    .map(move |level| Cell(cell.iter().copied().chain([level]).collect()))
            };
            cells = cells.iter().flat_map(longer).collect();
        }
        cells
    }

    /// The value of each factor in a cell.
    pub fn values<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = (&'a str, &'a str)> {
        let of = |(factor, level): (&'a Factor, &usize)| {
            (factor.name.as_str(), factor.levels[*level].as_str())
        };
        self.factors.iter().zip(&cell.0).map(of)
    }

    /// A cell in words: `streams=4 compress=lz4`.
    pub fn words(&self, cell: &Cell) -> String {
        let words: Vec<String> =
            self.values(cell).map(|(name, level)| format!("{name}={level}")).collect();
        words.join(" ")
    }
}

/// Cells in the random order of a block, which is the same whenever it is asked for.
pub fn order(cells: &[Cell], seed: u64, block: usize) -> Vec<Cell> {
    let mut cells = cells.to_vec();
    // Of another block another stream of numbers: seeds that are close give ones that are not.
    let mut random =
        fastrand::Rng::with_seed(seed ^ (block as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.shuffle(&mut cells);
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(text: &str) -> Factor {
        text.parse().expect(text)
    }

    #[test]
    fn factors_are_read_as_they_are_written() {
        assert_eq!(factor("streams=1, 2,4").levels, ["1", "2", "4"]);
        assert_eq!(factor("tablespaces=a;a,b").levels, ["a", "a,b"]);
        assert_eq!(factor("set.work_mem=1MB,1GB").name, "set.work_mem");
        for wrong in ["streams", "=1,2", "streams=1", "streams=1,", "streams=1,1", "a b=1,2"] {
            assert!(wrong.parse::<Factor>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_design_has_every_cell_once() {
        let factors = vec![factor("a=1,2,3"), factor("b=x,y")];
        let design = Design::new(factors, &[("b".into(), "y".into())], 7).expect("a design");
        assert_eq!(design.baseline, Cell(vec![0, 1]));
        let cells = design.cells();
        assert_eq!(cells.len(), 6);
        assert_eq!(design.words(&cells[1]), "a=1 b=y");
        let first = order(&cells, design.seed, 0);
        assert_eq!(first, order(&cells, design.seed, 0));
        let others: Vec<_> = (1..6).map(|block| order(&cells, design.seed, block)).collect();
        assert!(others.iter().any(|other| *other != first), "{others:?}");
        for mut block in others {
            block.sort();
            assert_eq!(block, cells);
        }
    }

    #[test]
    fn what_is_not_varied_is_no_baseline() {
        let design = |name: &str, level: &str| {
            Design::new(vec![factor("a=1,2")], &[(name.into(), level.into())], 1)
        };
        assert!(design("a", "2").is_ok());
        assert!(design("a", "3").is_err());
        assert!(design("b", "1").is_err());
        assert!(Design::new(vec![factor("a=1,2"), factor("a=3,4")], &[], 1).is_err());
    }
}
