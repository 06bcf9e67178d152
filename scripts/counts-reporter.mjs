// A vitest reporter that writes how many tests passed and failed, also when a file could not even be loaded.
import { writeFileSync } from 'node:fs'

export default class CountsReporter {
  onTestRunEnd(modules, errors) {
    const counts = { passed: 0, failed: errors.length, skipped: 0 }
    for (const module of modules) {
      counts.failed += module.errors().length
      for (const test of module.children.allTests()) {
        const { state } = test.result()
        if (state === 'passed') counts.passed += 1
        else if (state === 'failed') counts.failed += 1
        else counts.skipped += 1
      }
    }
    if (process.env.BROKKR_COUNTS_FILE) writeFileSync(process.env.BROKKR_COUNTS_FILE, JSON.stringify(counts))
  }
}
