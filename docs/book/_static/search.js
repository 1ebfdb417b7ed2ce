// Let the search find a misspelt word, such as "Nagel": a word that the book does not have is replaced by the nearest one.

// Return the number of letters that differ, that are missing, or that have changed places.
function distance(one, other) {
  const rows = [...Array(one.length + 1).keys()].map((number) => [number]);
  for (let to = 0; to <= other.length; to++) rows[0][to] = to;
  for (let from = 1; from <= one.length; from++)
    for (let to = 1; to <= other.length; to++) {
      const same = one[from - 1] === other[to - 1];
      rows[from][to] = Math.min(rows[from - 1][to] + 1, rows[from][to - 1] + 1, rows[from - 1][to - 1] + !same);
      if (from > 1 && to > 1 && one[from - 1] === other[to - 2] && one[from - 2] === other[to - 1])
        rows[from][to] = Math.min(rows[from][to], rows[from - 2][to - 2] + 1);
    }
  return rows[one.length][other.length];
}

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search === "undefined") return; // not the search page
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => {
    const [asked, terms, ...others] = parse(query);
    const { terms: texts, titleterms: titles } = Search._index;
    const known = [...new Set([...Object.keys(texts), ...Object.keys(titles)])];
    const nearest = (term) => {
      if (term.length < 4 || known.some((word) => word.includes(term))) return term;
      const [best] = known.map((word) => [distance(term, word), word]).sort(([a], [b]) => a - b);
      return best && best[0] <= term.length / 3 ? best[1] : term;
    };
    return [asked, new Set([...terms].map(nearest)), ...others];
  };
});
