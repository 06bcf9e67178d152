// The difference of two texts by lines (Myers). Pure. Texts that differ in more than `editsMax` lines are shown as replaced.
export interface DiffLine {
  readonly kind: 'same' | 'add' | 'del'
  readonly text: string
  /** Line number in the old and the new text. */
  readonly oldNo: number | null
  readonly newNo: number | null
}
const editsMax = 1_000

export function diffLines(before: string, after: string): DiffLine[] {
  const a = before === '' ? [] : before.replace(/\n$/, '').split('\n')
  const b = after === '' ? [] : after.replace(/\n$/, '').split('\n')
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1
  let end = 0
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1
  const middle = editScript(a.slice(start, a.length - end), b.slice(start, b.length - end))
  const kinds = [...Array<'same'>(start).fill('same'), ...middle, ...Array<'same'>(end).fill('same')]
  let oldAt = 0
  let newAt = 0
  return kinds.map((kind) => {
    const text = kind === 'add' ? b[newAt]! : a[oldAt]!
    const line = { kind, text, oldNo: kind === 'add' ? null : oldAt + 1, newNo: kind === 'del' ? null : newAt + 1 }
    if (kind !== 'add') oldAt += 1
    if (kind !== 'del') newAt += 1
    return line
  })
}

function editScript(a: readonly string[], b: readonly string[]): DiffLine['kind'][] {
  const replaced = (): DiffLine['kind'][] => [...a.map(() => 'del' as const), ...b.map(() => 'add' as const)]
  const most = Math.min(a.length + b.length, editsMax)
  const furthest = new Map<number, number>([[1, 0]])
  const trace: Map<number, number>[] = []
  for (let edits = 0; edits <= most; edits += 1) {
    trace.push(new Map(furthest))
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const isDown = diagonal === -edits || (diagonal !== edits && (furthest.get(diagonal - 1) ?? -1) < (furthest.get(diagonal + 1) ?? -1))
      let x = isDown ? (furthest.get(diagonal + 1) ?? 0) : (furthest.get(diagonal - 1) ?? 0) + 1
      while (x < a.length && x - diagonal < b.length && a[x] === b[x - diagonal]) x += 1
      furthest.set(diagonal, x)
      if (x >= a.length && x - diagonal >= b.length) return walkBack(trace, a.length, b.length)
    }
  }
  return replaced()
}

function walkBack(trace: readonly Map<number, number>[], width: number, height: number): DiffLine['kind'][] {
  const kinds: DiffLine['kind'][] = []
  let x = width
  let y = height
  for (let edits = trace.length - 1; edits > 0; edits -= 1) {
    const furthest = trace[edits]!
    const diagonal = x - y
    const isDown = diagonal === -edits || (diagonal !== edits && (furthest.get(diagonal - 1) ?? -1) < (furthest.get(diagonal + 1) ?? -1))
    const previous = isDown ? diagonal + 1 : diagonal - 1
    const previousX = furthest.get(previous) ?? 0
    const previousY = previousX - previous
    while (x > previousX && y > previousY) {
      kinds.push('same')
      x -= 1
      y -= 1
    }
    kinds.push(isDown ? 'add' : 'del')
    x = previousX
    y = previousY
  }
  while (x > 0 && y > 0) {
    kinds.push('same')
    x -= 1
    y -= 1
  }
  return kinds.toReversed()
}

export interface Hunk {
  readonly skipped: number
  readonly lines: readonly DiffLine[]
}

/** Changed lines with a few lines around them; the rest is counted. */
export function toHunks(lines: readonly DiffLine[], around = 3): Hunk[] {
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same'))
  const hunks: { skipped: number; lines: DiffLine[] }[] = []
  let skipped = 0
  for (const [index, line] of lines.entries()) {
    if (!near[index]) {
      skipped += 1
      continue
    }
    const isNew = hunks.length === 0 || near[index - 1] !== true
    if (isNew) hunks.push({ skipped, lines: [] })
    hunks.at(-1)!.lines.push(line)
    skipped = 0
  }
  return hunks
}
