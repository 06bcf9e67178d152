// Runs work at most once: all callers get the same result or failure.

export type Once<T> = (() => Promise<T>) & {
  /** True after the first call. */
  begun(): boolean
}

export function once<T>(work: () => Promise<T>): Once<T> {
  let outcome: Promise<T> | undefined
  const ask = () => (outcome ??= work())
  return Object.assign(ask, { begun: () => outcome !== undefined })
}
