// Filters of texts.
import anyAscii from 'any-ascii'
import { type Arguments, booleanArgument, countArgument, requireText, textArgument } from './arguments.ts'
import type { Budget } from './budget.ts'
import type { Filter } from './builtins.ts'
import { trimEnd, trimStart } from './split-template.ts'

/** Takes a text and counts its result, which is at most three times as long. */
const ofText =
  (change: (text: string, args: Arguments) => string): Filter =>
  (budget, value, args) => {
    const text = requireText(args.filter, value)
    budget.text(text.length)
    const changed = change(text, args)
    budget.text(changed.length)
    return changed
  }

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

export const textFilters = {
  lower: ofText((text) => text.toLowerCase()),
  upper: ofText((text) => text.toUpperCase()),
  capitalize: ofText((text) => {
    const first = String.fromCodePoint(...[text.codePointAt(0)].filter((point) => point !== undefined))
    return first.toUpperCase() + text.slice(first.length).toLowerCase()
  }),
  trim: ofText((text) => trimEnd(trimStart(text))),
  truncate: ofText((text, args) => {
    const [length, end] = [countArgument(args, 'length', 255n), textArgument(args, 'end', '…')]
    let count = 0
    for (const { index } of graphemes.segment(text)) {
      if (count === length) return text.slice(0, index) + end
      count += 1
    }
    return text
  }),
  slugify: ofText(slugify),
  indent: (budget, value, args) => indent(budget, requireText(args.filter, value), args),
  replace: (budget, value, args) => {
    const [from, to] = [textArgument(args, 'from'), textArgument(args, 'to')]
    return joinParts(budget, splitText(budget, requireText(args.filter, value), from), to)
  },
  split: (budget, value, args) => {
    const separator = textArgument(args, 'pat').replaceAll('\\n', '\n').replaceAll('\\t', '\t')
    return splitText(budget, requireText(args.filter, value), separator)
  },
} satisfies Record<string, Filter>

/** An empty separator also separates before the first and after the last character. */
function splitText(budget: Budget, text: string, separator: string): string[] {
  budget.text(text.length)
  const parts = separator === '' ? ['', ...Array.from(text), ''] : text.split(separator)
  budget.items(parts.length)
  return parts
}

export function joinParts(budget: Budget, parts: readonly string[], separator: string): string {
  const chars = parts.reduce((sum, part) => sum + part.length, 0)
  budget.text(chars + separator.length * Math.max(0, parts.length - 1))
  return parts.join(separator)
}

/** Line breaks become LF and the last one is dropped; blank lines stay empty unless `blank` is set. */
function indent(budget: Budget, text: string, args: Arguments): string {
  const prefix = textArgument(args, 'prefix', '    ')
  const [isFirst, isBlank] = [booleanArgument(args, 'first'), booleanArgument(args, 'blank')]
  const lines = (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line))
  budget.items(lines.length)
  const needsPrefix = (line: string, index: number) => (index === 0 ? isFirst : isBlank || trimStart(line) !== '')
  budget.text(text.length + lines.length * prefix.length)
  return lines.map((line, index) => (needsPrefix(line, index) ? prefix + line : line)).join('\n')
}

/** Lower-case ASCII letters and digits, separated by single dashes. */
function slugify(text: string): string {
  let slug = ''
  for (const character of text) {
    // Each ideograph is a word of its own.
    const ascii = anyAscii(character) + (/\p{Script=Han}/u.test(character) ? ' ' : '')
    for (const letter of ascii === '' ? '-' : ascii.toLowerCase()) {
      if (/[a-z0-9]/.test(letter)) slug += letter
      else if (slug !== '' && !slug.endsWith('-')) slug += '-'
    }
  }
  return slug.endsWith('-') ? slug.slice(0, -1) : slug
}
