// One piece of work at a time, in the order in which they were asked for.

export function createExclusive(): <T>(work: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve()
  return (work) => {
    const mine = last.then(work, work)
    last = mine.catch(() => {})
    return mine
  }
}
