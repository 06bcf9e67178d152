// What every program looks at before it starts anything: settings of the environment that would switch a guard off behind
// the program's back. Called first in main.

type Environment = Readonly<Record<string, string | undefined>>
export type Starting = {
  env: Environment
  stderr: { write(text: string): unknown }
  exit(code: number): unknown
}

/** Exit code 2 means: the way it was started is wrong; starting it again will not help. */
const wrongStart = 2

export function checkStart(program: Starting = { env: process.env, stderr: process.stderr, exit: (code) => process.exit(code) }): void {
  const problems = startProblems(program.env)
  if (problems.length === 0) return
  program.stderr.write(`Not started:\n${problems.map((problem) => `  ${problem}\n`).join('')}`)
  program.exit(wrongStart)
}

/** One sentence each: what is wrong, why it matters, what to do. */
export function startProblems(env: Environment): string[] {
  return guards.filter((guard) => guard.isOff(env)).map((guard) => guard.problem)
}

const guards: readonly { isOff(env: Environment): boolean; problem: string }[] = [
  {
    isOff: (env) => env['NODE_TLS_REJECT_UNAUTHORIZED']?.trim() === '0',
    problem:
      'NODE_TLS_REJECT_UNAUTHORIZED=0 is set in the environment: every TLS connection of this process would accept any certificate. ' +
      'Unset it; for a private certificate authority name its file in NODE_EXTRA_CA_CERTS or in the ca_file setting.',
  },
]
