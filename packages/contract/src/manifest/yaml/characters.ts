// Character codes of the YAML indicators, by name.

export const Char = {
  tab: 9,
  lineFeed: 10,
  space: 32,
  exclamation: 33,
  doubleQuote: 34,
  hash: 35,
  percent: 37,
  ampersand: 38,
  singleQuote: 39,
  asterisk: 42,
  comma: 44,
  dash: 45,
  colon: 58,
  greater: 62,
  question: 63,
  bracketOpen: 91,
  backslash: 92,
  bracketClose: 93,
  braceOpen: 123,
  bar: 124,
  braceClose: 125,
} as const

export const isSpaceOrTab = (code: number): boolean => code === Char.space || code === Char.tab

/** Space, tab, line feed or the end of the text (which charCodeAt gives as NaN). */
export const isBlank = (code: number): boolean => code === Char.space || code === Char.lineFeed || code === Char.tab || Number.isNaN(code)

export const isFlowIndicator = (code: number): boolean =>
  code === Char.comma || code === Char.bracketOpen || code === Char.bracketClose || code === Char.braceOpen || code === Char.braceClose
