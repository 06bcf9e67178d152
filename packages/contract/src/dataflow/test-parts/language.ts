// Random paths and conditions, for properties. Shapes that the parser can give, and no others.
import fc from 'fast-check'
import type { ConditionNode, Operand } from '../language/condition.ts'
import type { Json } from '../language/json.ts'
import type { Literal } from '../language/literal.ts'
import type { Segment } from '../language/path.ts'

const character = fc.oneof(
  fc.constantFrom(...'.*?#|[](){}:\\\'"=!<>&,%@$ \n\taZ09_-é'.split(''), '😀'),
  // Any code point except surrogates. `fc.string({ unit: 'binary' })` generates the same, but takes 1.7 s of CPU to set up.
  fc
    .integer({ min: 0, max: 0x10_ffff })
    .filter((code) => code < 0xd800 || code > 0xdfff)
    .map((code) => String.fromCodePoint(code)),
)
const key = fc.oneof(
  fc.constantFrom('a', 'metadata', 'exists', 'in', 'x.y', '__proto__', '$', '0', ''),
  fc.array(character, { maxLength: 4 }).map((c) => c.join('')),
)

export const literal: fc.Arbitrary<Literal> = fc.oneof(
  key.map((text) => ({ kind: 'text' as const, text })),
  fc.constantFrom('0', '-1.50', '1e3', '9007199254740993', '007').map((text) => ({ kind: 'number' as const, text })),
  fc.boolean().map((value) => ({ kind: 'boolean' as const, value })),
  fc.constant({ kind: 'null' as const }),
)

const { segments } = fc.letrec<{ segment: Segment; segments: Segment[] }>((tie) => ({
  segment: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    key.map((name): Segment => ({ kind: 'key', key: name })),
    fc.nat(999).map((index): Segment => ({ kind: 'index', key: String(index), index })),
    fc.constant<Segment>({ kind: 'each' }),
    fc
      .array(fc.constantFrom('*', '?', 'a', '\\*', '\\?', '\\\\', '.', ' ', '\n', "'"), { minLength: 1, maxLength: 4 })
      .map((parts): Segment => ({ kind: 'wildcard', glob: `*${parts.join('')}` })),
    fc
      .record({
        segments: tie('segments'),
        operator: fc.constantFrom('==', '!=', '<', '<=', '>', '>=', '%'),
        literal,
        all: fc.boolean(),
      })
      .map((query) => ({ kind: 'query' as const, query })),
  ),
  segments: fc.array(tie('segment'), { maxLength: 3, depthIdentifier: 'path' }),
}))

export { segments }

const operand: fc.Arbitrary<Operand> = fc.record({ from: fc.constantFrom('payload', 'metadata'), segments })

export const { condition } = fc.letrec<{ condition: ConditionNode }>((tie) => ({
  condition: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    operand.map((of): ConditionNode => ({ kind: 'truth', operand: of })),
    operand.map((of): ConditionNode => ({ kind: 'exists', operand: of })),
    fc
      .record({ operand, operator: fc.constantFrom('==', '!=', '<', '<=', '>', '>='), literal })
      .map((node) => ({ kind: 'compare' as const, ...node })),
    fc
      .record({ operand, literals: fc.array(literal, { minLength: 1, maxLength: 3 }) })
      .map((node): ConditionNode => ({ kind: 'in', ...node })),
    fc.record({ operand, pattern: key }).map((node): ConditionNode => ({ kind: 'matches', ...node })),
    tie('condition').map((of): ConditionNode => ({ kind: 'not', of })),
    fc.array(tie('condition'), { minLength: 2, maxLength: 3 }).map((of): ConditionNode => ({ kind: 'and', of })),
    fc.array(tie('condition'), { minLength: 2, maxLength: 3 }).map((of): ConditionNode => ({ kind: 'or', of })),
  ),
}))

/** Any JSON, with keys that objects inherit. */
export const json = fc.jsonValue({ maxDepth: 4 }).map((value) => value as Json)
export const hostileJson: fc.Arbitrary<Json> = fc.oneof(
  json,
  fc
    .constantFrom('{"__proto__":{"a":1}}', '{"constructor":1,"length":2}', '[[],{"toString":null}]')
    .map((text) => JSON.parse(text) as Json),
)
