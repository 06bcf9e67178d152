// The lines in which two versions of a file differ, as a unified diff without context. Pure.

/** Marked values are replaced inside their lines, so the lines between the first and the last difference are shown. */
export function toLineDiff(path: string, before: string, after: string): string {
  const [old, now] = [before.split('\n'), after.split('\n')]
  const start = old.findIndex((line, index) => line !== now[index])
  if (start < 0 && old.length === now.length) return ''
  const hunks = old.length === now.length ? toHunks(old, now) : [toHunk(old, now, Math.max(0, start), old.length, now.length)]
  return [`--- a/${path}`, `+++ b/${path}`, ...hunks.flat(), ''].join('\n')
}

function toHunks(old: readonly string[], now: readonly string[]): string[][] {
  const hunks: string[][] = []
  for (let index = 0; index < old.length; index++) {
    if (old[index] === now[index]) continue
    let end = index
    while (end < old.length && old[end] !== now[end]) end++
    hunks.push(toHunk(old, now, index, end, end))
    index = end
  }
  return hunks
}

const toHunk = (old: readonly string[], now: readonly string[], start: number, oldEnd: number, nowEnd: number): string[] => [
  `@@ -${start + 1},${oldEnd - start} +${start + 1},${nowEnd - start} @@`,
  ...old.slice(start, oldEnd).map((line) => `-${line}`),
  ...now.slice(start, nowEnd).map((line) => `+${line}`),
]
