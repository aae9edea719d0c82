//! Growth over tests or time as a step curve: its value somewhere, its mean height (the area under it, over its length), and the median of
//! several. Pure.

use super::median;

/// (x, value), x rising; a value holds until the next one, the last for ever. Before the first x the first value holds.
pub type Curve = Vec<(f64, f64)>;

/// The value at x; 0 of an empty curve.
#[must_use]
pub fn value_at(curve: &[(f64, f64)], x: f64) -> f64 {
    let passed = curve.partition_point(|p| p.0 <= x);
    curve.get(passed.saturating_sub(1)).map_or(0.0, |p| p.1)
}

/// The area under the curve from 0 to `end`, divided by `end`: the value it had on average.
#[must_use]
pub fn mean_height(curve: &[(f64, f64)], end: f64) -> f64 {
    if end <= 0.0 {
        return value_at(curve, 0.0);
    }
    let (mut area, mut from, mut value) = (0.0, 0.0, value_at(curve, 0.0));
    for (x, v) in curve.iter().filter(|p| p.0 > 0.0 && p.0 < end) {
        area += (x - from) * value;
        (from, value) = (*x, *v);
    }
    (area + (end - from) * value) / end
}

/// The median of several curves at up to `most` places from 0 to `end`, among them every x at which one of them changes where these are
/// not more.
#[must_use]
pub fn median_curve(curves: &[Curve], end: f64, most: usize) -> Curve {
    let mut places: Vec<f64> = curves
        .iter()
        .flatten()
        .map(|p| p.0)
        .filter(|x| (0.0..=end).contains(x))
        .chain([0.0, end])
        .collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    if places.len() > most.max(2) {
        let steps = most.max(2) - 1;
        places = (0..=steps).map(|i| end * i as f64 / steps as f64).collect();
    }
    places
        .into_iter()
        .filter_map(|x| {
            let values: Vec<f64> = curves.iter().map(|c| value_at(c, x)).collect();
            Some((x, median(&values)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::close;
    use super::*;

    fn steps() -> Curve {
        vec![(0.0, 10.0), (2.0, 20.0), (6.0, 30.0)]
    }

    #[test]
    fn values() {
        for (x, want) in [
            (0.0, 10.0),
            (1.9, 10.0),
            (2.0, 20.0),
            (5.9, 20.0),
            (99.0, 30.0),
        ] {
            assert_eq!(value_at(&steps(), x), want);
        }
        assert_eq!(value_at(&[], 1.0), 0.0);
        assert_eq!(value_at(&[(3.0, 7.0)], 1.0), 7.0);
    }

    /// By hand: 2 x 10 + 4 x 20 + 4 x 30 = 220 over 10.
    #[test]
    fn areas() {
        for (end, want) in [(10.0, 22.0), (2.0, 10.0), (4.0, 15.0), (0.0, 10.0)] {
            close(mean_height(&steps(), end), want, 1e-12);
        }
        close(mean_height(&[], 5.0), 0.0, 0.0);
    }

    #[test]
    fn medians_of_curves() {
        let curves = [steps(), vec![(0.0, 0.0), (4.0, 40.0)], vec![(0.0, 12.0)]];
        assert_eq!(
            median_curve(&curves, 10.0, 100),
            [
                (0.0, 10.0),
                (2.0, 12.0),
                (4.0, 20.0),
                (6.0, 30.0),
                (10.0, 30.0)
            ]
        );
        // Thinned, it keeps both ends.
        let few = median_curve(&curves, 10.0, 3);
        assert_eq!(few, [(0.0, 10.0), (5.0, 20.0), (10.0, 30.0)]);
        assert!(median_curve(&[], 10.0, 100).is_empty());
    }
}
