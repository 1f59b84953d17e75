// The address holds what was asked, so that a link reproduces the picture; after the # stands what was chosen in it.

export const LONGEST = 30000; // characters; servers refuse an address that is much longer

export const given = new URLSearchParams(location.search);

// values without the empty ones, as the question mark of an address
export function written(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return new URLSearchParams(filled.map(([name, value]) => [name, String(value)])).toString();
}

// whether the address could take the values
export function remember(values, hash = "") {
  const text = written(values);
  const fits = text.length <= LONGEST;
  history.replaceState(null, "", location.pathname + (fits && text ? `?${text}` : "") + hash);
  return fits;
}
