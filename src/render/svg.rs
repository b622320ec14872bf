//! Plots as SVG text, for embedding in a page. Colours are placeholders that the page's style sheet replaces, so
//! that one drawing suits light, dark and print.

use plotters::prelude::{
    AreaSeries, ChartBuilder, Color as _, DashedLineSeries, IntoDrawingArea as _, IntoFont as _, LineSeries,
    PathElement, RGBColor, Rectangle, SVGBackend, Text,
};
use plotters::style::TextStyle;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::html::escaped;

/// A colour by its role. `report.css` holds the same five figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Grid,
    First,
    Second,
    Limit,
}

impl Ink {
    fn color(self) -> RGBColor {
        let n = match self {
            Ink::Text => 1,
            Ink::Grid => 2,
            Ink::First => 3,
            Ink::Second => 4,
            Ink::Limit => 5,
        };
        RGBColor(n, n, n)
    }
}

/// A line through points, filled down to zero if asked.
pub(super) struct Line {
    pub(super) points: Vec<(f64, f64)>,
    pub(super) ink: Ink,
    pub(super) filled: bool,
}

/// A level across the whole plot, with its name above it.
pub(super) struct Level {
    pub(super) at: f64,
    pub(super) name: String,
    pub(super) ink: Ink,
    pub(super) side: Side,
}

/// On which side of its line a name stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Boxes from `low` to `high` on the x axis, as high as their count.
pub(super) struct Bar {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) height: f64,
}

pub(super) struct Plot<'a> {
    /// What it shows, for those who cannot see it.
    pub(super) title: String,
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
    pub(super) x_text: &'a dyn Fn(f64) -> String,
    pub(super) y_text: &'a dyn Fn(f64) -> String,
    pub(super) lines: Vec<Line>,
    pub(super) bars: Vec<Bar>,
    /// Horizontal levels.
    pub(super) levels: Vec<Level>,
    /// Vertical ones.
    pub(super) marks: Vec<Level>,
}

/// The plot twice, for wide and for narrow places; the style sheet shows one.
pub(super) fn draw(plot: &Plot<'_>) -> String {
    let wide = draw_at(plot, (760, 280), 7);
    let narrow = draw_at(plot, (380, 260), 4);
    format!("{}\n{}", dressed(&wide, "wide", &plot.title), dressed(&narrow, "narrow", &plot.title))
}

fn dressed(svg: &str, class: &str, title: &str) -> String {
    let opening = format!("<svg class=\"{class}\" role=\"img\" aria-label=\"{}\" ", escaped(title));
    svg.trim_end().replacen("<svg ", &opening, 1)
}

fn draw_at(plot: &Plot<'_>, size: (u32, u32), x_labels: usize) -> String {
    let mut svg = String::new();
    // Drawing into a string cannot fail but for what a caller got wrong: an empty range.
    draw_into(&mut svg, plot, size, x_labels).unwrap_or_default();
    svg
}

fn draw_into(
    svg: &mut String,
    plot: &Plot<'_>,
    size: (u32, u32),
    x_labels: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    let mut chart = ChartBuilder::on(&root)
        .margin_top(12)
        .margin_right(16)
        .x_label_area_size(26)
        .y_label_area_size(64)
        .build_cartesian_2d(plot.x.0..plot.x.1, plot.y.0..plot.y.1)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(x_labels)
        .y_labels(5)
        .x_label_formatter(&|x: &f64| (plot.x_text)(*x))
        .y_label_formatter(&|y: &f64| (plot.y_text)(*y))
        .axis_style(Ink::Grid.color())
        .bold_line_style(Ink::Grid.color())
        .light_line_style(Ink::Grid.color().mix(0.0))
        .label_style(text(Ink::Text))
        .draw()?;
    for bar in &plot.bars {
        let corners = [(bar.from, 0.0), (bar.to, bar.height)];
        chart.draw_series(std::iter::once(Rectangle::new(corners, Ink::First.color().mix(0.75).filled())))?;
    }
    for line in &plot.lines {
        let color = line.ink.color();
        let points = line.points.iter().copied();
        if line.filled {
            chart.draw_series(AreaSeries::new(points.clone(), plot.y.0, color.mix(0.18)))?;
        }
        chart.draw_series(LineSeries::new(points, color.stroke_width(2)))?;
    }
    for level in &plot.levels {
        let ends = [(plot.x.0, level.at), (plot.x.1, level.at)];
        let style = level.ink.color().stroke_width(2);
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, style))?;
        let anchor = Pos::new(HPos::Right, VPos::Bottom);
        let above = level.at + (plot.y.1 - plot.y.0) * 0.01;
        let label = Text::new(level.name.clone(), (plot.x.1, above), text(level.ink).pos(anchor));
        chart.draw_series(std::iter::once(label))?;
    }
    for mark in &plot.marks {
        let ends = vec![(mark.at, plot.y.0), (mark.at, plot.y.1)];
        chart.draw_series(std::iter::once(PathElement::new(ends, mark.ink.color().stroke_width(2))))?;
        // Near an edge there is only one side left.
        let share = (mark.at - plot.x.0) / (plot.x.1 - plot.x.0);
        let left = share > 0.85 || (mark.side == Side::Left && share > 0.15);
        let anchor = Pos::new(if left { HPos::Right } else { HPos::Left }, VPos::Top);
        let label = Text::new(format!(" {} ", mark.name), (mark.at, plot.y.1), text(mark.ink).pos(anchor));
        chart.draw_series(std::iter::once(label))?;
    }
    root.present()?;
    drop(chart);
    drop(root);
    Ok(())
}

fn text(ink: Ink) -> TextStyle<'static> {
    ("sans-serif", 12).into_font().color(&ink.color())
}

/// At most `most` points, each the highest of its stretch: no peak is lost.
pub(super) fn thinned(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let each = points.len().div_ceil(most);
    let highest = |stretch: &[(f64, f64)]| stretch.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(each).filter_map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::thinned;

    #[test]
    fn thinning_keeps_every_peak_that_is_the_highest_around() {
        let points: Vec<(f64, f64)> =
            (0..1000).map(|n| (f64::from(n), if n == 501 { 9.0 } else { 1.0 })).collect();
        let thin = thinned(&points, 100);
        assert_eq!(thin.len(), 100);
        assert!(thin.contains(&(501.0, 9.0)));
    }
}
