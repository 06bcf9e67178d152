// Errors of templates. Messages name constructs of the template, never values of parameters.
import type { Position } from './syntax-tree.ts'

/** The template cannot be parsed. */
export class TemplateSyntaxError extends Error {
  override name = 'TemplateSyntaxError'
  readonly at: Position

  constructor(message: string, at: Position) {
    super(`line ${at.line}, column ${at.column}: ${message}`)
    this.at = at
  }
}

/** The template cannot be rendered with these parameters. */
export class RenderError extends Error {
  override name = 'RenderError'
}

/** A name that is not defined. Conditions and the filter `default` accept it. */
export class MissingName extends RenderError {
  override name = 'MissingName'
}
