// Refuses arguments that no command can use: control characters, which could forge lines of output and logs, and very long ones.
import { CliError, exitCodes } from './output.ts'

const lengthMax = 65_536

export function checkArguments(args: readonly string[]): void {
  for (const [at, text] of args.entries()) {
    const where = `argument ${at + 1}`
    if (text.length > lengthMax)
      throw new CliError(`${where} is longer than ${lengthMax} characters`, {
        where: `${text.slice(0, 40)}…`,
        next: 'put the content into a file and name the file',
        exitCode: exitCodes.usage,
      })
    // A line break or a tab may be part of a reason or a parameter; the others are never typed.
    const found = /(?![\n\t])\p{Cc}/u.exec(text)
    if (found !== null)
      throw new CliError(`${where} contains a control character`, {
        where: `character ${found.index + 1} is U+${found[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`,
        next: 'type the argument again without it',
        exitCode: exitCodes.usage,
      })
  }
}
