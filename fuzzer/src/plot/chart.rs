//! One chart as SVG text, drawn by plotters. Pure. For `warren plot` and `warren compare`.

use plotters::prelude::*;

/// A line of a chart: name and (x, value).
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// What x is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Across {
    /// Seconds of something, shown in the unit that fits.
    Seconds(&'static str),
    /// A number of something.
    Count(&'static str),
}

/// What a chart shows.
pub struct Chart {
    /// The file's name without `.svg`.
    pub file: String,
    pub title: String,
    pub across: Across,
    pub lines: Vec<Line>,
    /// Values stand until the next one: drawn as steps.
    pub steps: bool,
}

const SIZE: (u32, u32) = (1000, 320);
/// Told apart also without red and green.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
    RGBColor(150, 150, 0),
];

/// The SVG.
///
/// # Errors
/// What the drawing library says.
pub fn svg(chart: &Chart) -> Result<String, String> {
    let mut text = String::new();
    draw(chart, &mut text).map_err(|e| format!("drawing {}: {e}", chart.file))?;
    Ok(text)
}

fn draw(chart: &Chart, text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let points = || chart.lines.iter().flat_map(|l| &l.points);
    let furthest = points().map(|p| p.0).fold(0.0, f64::max);
    let (unit, across) = match chart.across {
        Across::Seconds(of) => {
            let (unit, name) = unit(furthest);
            (unit, format!("{name} of {of}"))
        }
        Across::Count(what) => (1.0, what.to_owned()),
    };
    let right = (furthest / unit).max(1e-9);
    let top = points().map(|p| p.1).fold(0.0, f64::max);
    // A flat zero still wants a scale.
    let top = if top > 0.0 { top * 1.08 } else { 1.0 };
    let lowest = points().map(|p| p.1).fold(f64::INFINITY, f64::min);
    // Coverage starts high: the part that changes is what one wants to see.
    let bottom = if chart.steps || !lowest.is_finite() || lowest < 0.5 * top {
        0.0
    } else {
        lowest * 0.98
    };
    let mut builder = ChartBuilder::on(&root);
    builder
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .caption(&chart.title, ("sans-serif", 18));
    let right = if points().next().is_none() {
        1.0
    } else {
        right
    };
    let mut area = builder.build_cartesian_2d(0.0..right, bottom..top)?;
    area.configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(across)
        .x_label_formatter(&|v| label(*v))
        .y_label_formatter(&|v| label(*v))
        .label_style(("sans-serif", 13))
        .draw()?;
    if points().next().is_none() {
        root.draw(&Text::new(
            "no data yet",
            (
                i32::try_from(SIZE.0 / 2).unwrap_or(0) - 40,
                i32::try_from(SIZE.1 / 2).unwrap_or(0),
            ),
            ("sans-serif", 16),
        ))?;
        root.present()?;
        return Ok(());
    }
    for (i, line) in chart.lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let scaled: Vec<(f64, f64)> = line.points.iter().map(|(t, v)| (t / unit, *v)).collect();
        let drawn = if chart.steps { steps(&scaled) } else { scaled };
        area.draw_series(LineSeries::new(drawn, colour.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    area.configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 13))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Seconds in the unit of the time axis, and its name.
fn unit(seconds: f64) -> (f64, &'static str) {
    if seconds > 4.0 * 86_400.0 {
        (86_400.0, "days")
    } else if seconds > 4.0 * 3600.0 {
        (3600.0, "hours")
    } else if seconds > 4.0 * 60.0 {
        (60.0, "minutes")
    } else {
        (1.0, "seconds")
    }
}

/// A number without needless digits.
fn label(v: f64) -> String {
    let text = if v.abs() >= 100.0 {
        format!("{v:.0}")
    } else {
        format!("{v:.3}")
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A corner before each change.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::with_capacity(points.len() * 2);
    for (t, v) in points {
        if let Some((_, before)) = out.last().copied()
            && (before - v).abs() > f64::EPSILON
        {
            out.push((*t, before));
        }
        out.push((*t, *v));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_units_and_steps() {
        for (v, want) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (12.0, "12"),
            (1234.0, "1234"),
            (100.0, "100"),
        ] {
            assert_eq!(label(v), want);
        }
        assert_eq!(unit(10.0).1, "seconds");
        assert_eq!(unit(100_000.0).1, "hours");
        assert_eq!(
            steps(&[(0.0, 0.0), (1.0, 0.0), (2.0, 3.0)]),
            [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 3.0)]
        );
    }

    #[test]
    fn a_chart_with_and_without_points() {
        let chart = |points: Vec<(f64, f64)>| Chart {
            file: "x".into(),
            title: "a < b & c".into(),
            across: Across::Seconds("fuzzing"),
            lines: vec![Line {
                name: "<one>".into(),
                points,
            }],
            steps: true,
        };
        let counted = Chart {
            across: Across::Count("tests"),
            ..chart(vec![(3.0, 1.0), (90_000.0, 2.0)])
        };
        let text = svg(&counted).unwrap();
        assert!(
            text.contains("tests") && !text.contains("fuzzing"),
            "{text}"
        );
        let empty = svg(&chart(vec![])).unwrap();
        assert!(empty.contains("no data yet"), "{empty}");
        for points in [
            vec![(0.0, 0.0)],
            vec![(3.0, 1.0), (900.0, 2.0)],
            vec![(5.0, 1e12), (6.0, 0.0)],
        ] {
            let text = svg(&chart(points)).unwrap();
            assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"));
            assert!(
                text.contains("a &lt; b &amp; c") && text.contains("&lt;one&gt;"),
                "{text}"
            );
            assert!(text.contains("<polyline"), "{text}");
            assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }
}
