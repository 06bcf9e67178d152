// Path of a field in a body, such as `stacks[3].rev`. Names sent by the client appear only if they have the form of our field names.
export function fieldPath(steps: readonly (string | number)[]): string {
  return steps.map((step, index) => (typeof step === 'number' ? `[${step}]` : `${index === 0 ? '' : '.'}${fieldName(step)}`)).join('')
}

const fieldName = (name: string): string => (/^[a-z][a-z0-9_]{0,63}$/.test(name) ? name : '*')
