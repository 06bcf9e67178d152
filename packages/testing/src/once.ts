// Work that is done at most once: everybody who asks meanwhile or later gets the same outcome, a failure as well.

export type Once<T> = (() => Promise<T>) & {
  /** True as soon as somebody has asked. */
  begun(): boolean
}

export function once<T>(work: () => Promise<T>): Once<T> {
  let outcome: Promise<T> | undefined
  const ask = () => (outcome ??= work())
  return Object.assign(ask, { begun: () => outcome !== undefined })
}
