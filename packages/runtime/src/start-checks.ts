// Refuses to start a program in an environment that disables a security check, such as the verification of certificates. Every
// main calls it first.
import { wrongConfigurationExitCode } from './config/config-error.ts'

type Environment = Readonly<Record<string, string | undefined>>
export type StartingProgram = {
  env: Environment
  stderr: { write(text: string): unknown }
  exit(code: number): unknown
}

export function checkStart(
  program: StartingProgram = { env: process.env, stderr: process.stderr, exit: (code) => process.exit(code) },
): void {
  const problems = findStartProblems(program.env)
  if (problems.length === 0) return
  program.stderr.write(`Not started:\n${problems.map((problem) => `  ${problem}\n`).join('')}`)
  program.exit(wrongConfigurationExitCode)
}

/** One sentence each: problem, reason, remedy. */
export function findStartProblems(env: Environment): string[] {
  return checks.filter((check) => check.isViolated(env)).map((check) => check.problem)
}

const checks: readonly { isViolated(env: Environment): boolean; problem: string }[] = [
  {
    isViolated: (env) => env['NODE_TLS_REJECT_UNAUTHORIZED']?.trim() === '0',
    problem:
      'NODE_TLS_REJECT_UNAUTHORIZED=0 is set in the environment: every TLS connection of this process would accept any certificate. ' +
      'Unset it; for a private certificate authority name its file in NODE_EXTRA_CA_CERTS or in the ca_file setting.',
  },
]
