// How many test files this process has begun: raised by the runner's setup file (die-with-runner.ts), none outside of the runner.
const key = Symbol.for('brokkr.test-file-count')
const world = globalThis as { [key]?: number }

export function testFileCount(): number {
  return world[key] ?? 0
}

export function beginTestFile(): number {
  world[key] = testFileCount() + 1
  return world[key]
}
