// The nearest of the known words, for "did you mean".
const lengthMax = 100

/** Null if none is near enough: more than a third of the letters would have to change. */
export function suggest(text: string, known: readonly string[]): string | null {
  if (text.length > lengthMax) return null
  const limit = Math.max(1, Math.floor(text.length / 3))
  let nearest: { word: string; distance: number } | null = null
  for (const word of known) {
    if (word.length > lengthMax || Math.abs(word.length - text.length) > limit) continue
    const distance = editDistance(text.toLowerCase(), word.toLowerCase())
    if (distance <= limit && (nearest === null || distance < nearest.distance)) nearest = { word, distance }
  }
  return nearest?.word ?? null
}

/** Insertions, deletions, replacements and swaps of neighbors that turn one text into the other. */
export function editDistance(a: string, b: string): number {
  let beforeLast: number[] = []
  let last = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= b.length; column += 1) {
      const isEqual = a[row - 1] === b[column - 1]
      const isSwap = row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current[column] = Math.min(
        last[column]! + 1,
        current[column - 1]! + 1,
        last[column - 1]! + (isEqual ? 0 : 1),
        isSwap ? beforeLast[column - 2]! + 1 : Number.POSITIVE_INFINITY,
      )
    }
    beforeLast = last
    last = current
  }
  return last[b.length]!
}
