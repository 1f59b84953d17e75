// The numbers that people change, as one list that the address keeps once it differs from the start.

const tablesOf = ({ x, heads, output_matrix, mapping }) => [
  x, ...heads.flatMap(({ query, key, value }) => [query, key, value]), output_matrix, mapping.q, mapping.k, mapping.v,
];
const listed = (all) => [all.key_width, ...tablesOf(all).flat(2)].join(" ");

const keepNumbers = () => remember({ numbers: listed(numbers) === listed(hand) ? null : listed(numbers) });

function recallNumbers() {
  const given = (address.get("numbers") ?? "").split(" ").map(Number);
  if (given.length !== listed(hand).split(" ").length || !given.every(Number.isFinite) || !(given[0] > 0)) return;
  numbers.key_width = given.shift();
  for (const row of tablesOf(numbers).flat()) row.splice(0, row.length, ...given.splice(0, row.length));
}
