# Figures of R's generalised Cochran-Mantel-Haenszel test on tables that it draws itself.
#
#     Rscript tests/reference/mantelhaen.R tests/reference
#
# writes mantelhaen_tables.csv (right and wrong answers by world, bin and group) and mantelhaen.csv (the test of each
# world). Tests compare with these files and need no R.

directory <- commandArgs(trailingOnly = TRUE)[1]
set.seed(18)
worlds <- list(
  two = list(groups = 2, bins = 20, size = 12, effect = 0),
  two_effect = list(groups = 2, bins = 20, size = 12, effect = 0.6),
  five = list(groups = 5, bins = 20, size = 8, effect = 0), five_effect = list(groups = 5, bins = 20, size = 8, effect = 0.4),
  five_sparse = list(groups = 5, bins = 30, size = 2, effect = 0.3)
)
tables <- figures <- NULL
for (name in names(worlds)) {
  w <- worlds[[name]]
  cells <- expand.grid(group = seq_len(w$groups), bin = seq_len(w$bins))
  n <- rpois(nrow(cells), w$size)
  p <- plogis(-1 + 4 * cells$bin / w$bins + w$effect * (cells$group - 1) * (-1)^(cells$group == 3))
  right <- rbinom(nrow(cells), n, p)
  counts <- array(rbind(right, n - right), c(2, w$groups, w$bins))
  found <- mantelhaen.test(counts, correct = FALSE)
  tables <- rbind(tables, data.frame(world = name, cells, right = right, wrong = n - right))
  figures <- rbind(figures, data.frame(
    world = name, statistic = sprintf("%.15g", found$statistic), df = found$parameter,
    p_value = sprintf("%.15g", found$p.value), r = getRversion()
  ))
}
write.csv(tables, file.path(directory, "mantelhaen_tables.csv"), row.names = FALSE, quote = FALSE)
write.csv(figures, file.path(directory, "mantelhaen.csv"), row.names = FALSE, quote = FALSE)
