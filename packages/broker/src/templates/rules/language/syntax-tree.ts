// Syntax tree of a template. Produced by parse-template.ts, executed by render.ts.
import type { Value } from './values.ts'

/** Line and column of the first character, both from 1. */
export interface Position {
  readonly line: number
  readonly column: number
}

export interface Path {
  readonly is: 'path'
  readonly name: string
  /** Keys and indexes; a nested path is evaluated to one. */
  readonly segments: readonly (string | Path)[]
}
export interface Call {
  readonly name: string
  readonly args: ReadonlyMap<string, Expression>
}
export type MathOperator = '+' | '-' | '*' | '/' | '%'
export type CompareOperator = '==' | '!=' | '<' | '<=' | '>' | '>='

export type Expression =
  | Path
  | { readonly is: 'literal'; readonly value: Value }
  | { readonly is: 'array'; readonly items: readonly Expression[] }
  | { readonly is: 'concat'; readonly parts: readonly Expression[] }
  | ({ readonly is: 'call' } & Call)
  | ({ readonly is: 'macro' } & Call)
  | {
      readonly is: 'test'
      readonly path: Path
      readonly name: string
      readonly args: readonly Expression[]
      readonly isNegated: boolean
    }
  | { readonly is: 'math'; readonly operator: MathOperator; readonly left: Expression; readonly right: Expression }
  | { readonly is: 'compare'; readonly operator: CompareOperator; readonly left: Expression; readonly right: Expression }
  | { readonly is: 'logic'; readonly operator: 'and' | 'or'; readonly left: Expression; readonly right: Expression }
  | { readonly is: 'in'; readonly left: Expression; readonly right: Expression; readonly isNegated: boolean }
  | { readonly is: 'not'; readonly value: Expression }
  | { readonly is: 'filtered'; readonly value: Expression; readonly filters: readonly Call[] }

export type Node =
  | { readonly is: 'text'; readonly text: string; readonly untrimmed?: string }
  | ({ readonly is: 'output'; readonly value: Expression } & At)
  | ({ readonly is: 'set'; readonly name: string; readonly value: Expression; readonly isGlobal: boolean } & At)
  | ({ readonly is: 'if'; readonly branches: readonly Branch[]; readonly otherwise: readonly Node[] } & At)
  | ({ readonly is: 'for' } & Loop & At)
  | ({ readonly is: 'break' | 'continue' } & At)
  /** Accepted by the first version when the template is created; fails when it is rendered. */
  | ({ readonly is: 'unsupported'; readonly what: string } & At)

interface At {
  readonly at: Position
}
export interface Branch {
  readonly condition: Expression
  readonly body: readonly Node[]
}
export interface Loop {
  readonly key: string | null
  readonly name: string
  readonly container: Expression
  readonly body: readonly Node[]
  readonly otherwise: readonly Node[]
}
export interface Macro {
  readonly parameters: readonly { readonly name: string; readonly fallback: Value | undefined }[]
  readonly body: readonly Node[]
}
export interface Template {
  readonly nodes: readonly Node[]
  readonly macros: ReadonlyMap<string, Macro>
}
