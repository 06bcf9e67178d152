// Tables that fit the terminal. Without a terminal nothing is cut, because programs read the output.
import pc from 'picocolors'

export interface Table {
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

const gap = 2
const narrowest = 6

/** Removes control characters: names from the broker may contain escape sequences. */
export const stripControls = (text: string): string => text.replace(/[\p{Cc}\p{Cf}]/gu, '·')

/** Pads columns to their widest cell, except the last one, and cuts the widest columns until a line has at most `width` characters. */
export function formatTable({ head, rows }: Table, width: number = Number.POSITIVE_INFINITY, isFirst = true): string {
  const cells = rows.map((row) => row.map(stripControls))
  const widths = fitWidths(
    head.map((title, at) => Math.max(title.length, ...cells.map((row) => row[at]?.length ?? 0))),
    width,
  )
  const line = (row: readonly string[]) =>
    row
      .map((cell, at) => cut(cell, widths[at]!).padEnd(at === head.length - 1 ? 0 : widths[at]!))
      .join(' '.repeat(gap))
      .trimEnd()
  return [...(isFirst ? [pc.bold(line(head))] : []), ...cells.map(line)].join('\n')
}

export function fitWidths(widths: readonly number[], width: number): number[] {
  const fitted = [...widths]
  const total = () => fitted.reduce((sum, one) => sum + one, 0) + gap * (fitted.length - 1)
  while (total() > width) {
    const widest = Math.max(...fitted)
    if (widest <= narrowest) break
    // Down to the second widest column, or as far as needed.
    const second = Math.max(narrowest, ...fitted.filter((one) => one < widest))
    const count = fitted.filter((one) => one === widest).length
    const step = Math.max(1, Math.min(widest - second, Math.ceil((total() - width) / count)))
    for (const [at, one] of fitted.entries()) if (one === widest) fitted[at] = Math.max(narrowest, one - step)
  }
  return fitted
}

const cut = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, Math.max(0, width - 1))}…`)

/** Width of the terminal, at least 80; no limit when the output is piped. */
export const terminalWidth = (): number => (process.stdout.isTTY ? Math.max(80, process.stdout.columns || 80) : Number.POSITIVE_INFINITY)
