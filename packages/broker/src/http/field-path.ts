// Where in a body something is wrong, as a person writes it: `stacks[3].rev`. Names that came from outside are not repeated
// unless they look like one of our fields.
export function fieldPath(steps: readonly (string | number)[]): string {
  return steps.map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index === 0 ? '' : '.'}${fieldName(step)}`)).join('')
}

const fieldName = (name: string): string => (/^[a-z][a-z0-9_]{0,63}$/.test(name) ? name : '*')
